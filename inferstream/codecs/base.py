"""Base classes of codecs, whose class methods convert between typed payloads and tensors."""

import warnings
from typing import Any, ClassVar, Generic, TypeVar

from ..errors import CodecError
from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    ResponseOutput,
)
from ..types.tensors import AnyTensor
from .decoded_cache import get_decoded, has_decoded

INPUT_PREFIX = "input-"
OUTPUT_PREFIX = "output-"

T = TypeVar("T")


class _Codec:
    ContentType: ClassVar[str] = ""
    """The content type that selects the codec in requests and settings."""

    TypeHint: ClassVar[Any] = type(None)
    """The annotation for which `decode_args` selects the codec."""

    OtherTypeHints: ClassVar[tuple[Any, ...]] = ()
    """Additional annotations for which the codec is selected."""

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        """Whether this codec can encode `payload`."""
        return False


class InputCodec(_Codec):
    """Converts between one tensor and a typed payload.

    Override the class methods and register the subclass with `register_input_codec`. The methods run in the
    thread of the model code that calls them. They raise CodecError if the payload or the tensor does not fit,
    or NotImplementedError unless overridden.
    """

    @staticmethod
    def find(
        content_type: str | None = None, payload: Any = None, type_hint: Any = None, *, added: bool = True
    ) -> "InputCodecLike | None":
        """Find a registered codec by content type, type hint or payload, in this order, or return None.

        Unless `added` is set, codecs that MLServer lacks are found only by content type.
        """
        from .registry import find_input_codec  # Imported lazily, because the registry imports this class.

        return find_input_codec(content_type, payload, type_hint, added=added)

    @classmethod
    def encode_output(cls, name: str, payload: Any, **options: Any) -> ResponseOutput:
        """Encode a payload as the output `name`, with its datatype, shape and content type."""
        raise NotImplementedError(f"{cls.__name__} does not encode outputs")

    @classmethod
    def decode_output(cls, response_output: ResponseOutput) -> Any:
        """Decode an output. The inverse of `encode_output`."""
        raise NotImplementedError(f"{cls.__name__} does not decode outputs")

    @classmethod
    def encode_input(cls, name: str, payload: Any, **options: Any) -> RequestInput:
        """Encode a payload as the input `name`, with its datatype, shape and content type."""
        raise NotImplementedError(f"{cls.__name__} does not encode inputs")

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> Any:
        """Decode an input. The inverse of `encode_input`."""
        raise NotImplementedError(f"{cls.__name__} does not decode inputs")

    @classmethod
    def describe_tensor(cls, name: str, hint: Any, is_output: bool) -> MetadataTensor | None:
        """Return the metadata of the tensor for a value annotated with `hint`.

        Returns None if the hint does not determine a datatype.
        """
        return None

    @classmethod
    def encode(cls, name: str, payload: Any) -> ResponseOutput:
        """Deprecated alias of `encode_output`."""
        warnings.warn("encode is deprecated, use encode_output", DeprecationWarning, stacklevel=2)
        return cls.encode_output(name, payload)

    @classmethod
    def decode(cls, request_input: RequestInput) -> Any:
        """Deprecated alias of `decode_input`."""
        warnings.warn("decode is deprecated, use decode_input", DeprecationWarning, stacklevel=2)
        return cls.decode_input(request_input)


class TensorCodec(InputCodec, Generic[T]):
    """An input codec that treats inputs and outputs alike.

    Subclasses implement `encode_tensor` and `decode_tensor`.
    """

    @classmethod
    def encode_tensor(cls, kind: type[AnyTensor], name: str, payload: Any, **options: Any) -> AnyTensor:
        """Encode a payload as a tensor of type `kind`."""
        raise NotImplementedError

    @classmethod
    def decode_tensor(cls, tensor: RequestInput | ResponseOutput) -> T:
        """Decode a tensor."""
        raise NotImplementedError

    @classmethod
    def encode_output(cls, name: str, payload: Any, **options: Any) -> ResponseOutput:
        return cls.encode_tensor(ResponseOutput, name, payload, **options)

    @classmethod
    def decode_output(cls, response_output: ResponseOutput) -> T:
        return cls.decode_tensor(response_output)

    @classmethod
    def encode_input(cls, name: str, payload: Any, **options: Any) -> RequestInput:
        return cls.encode_tensor(RequestInput, name, payload, **options)

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> T:
        return cls.decode_tensor(request_input)


class RequestCodec(_Codec):
    """Converts between a whole request or response and a typed payload.

    Override the class methods and register the subclass with `register_request_codec`. Threads and errors are
    as in `InputCodec`.
    """

    @staticmethod
    def find(
        content_type: str | None = None, payload: Any = None, type_hint: Any = None, *, added: bool = True
    ) -> "RequestCodecLike | None":
        """Find a registered codec by content type, type hint or payload, in this order, or return None.

        Unless `added` is set, codecs that MLServer lacks are found only by content type.
        """
        from .registry import find_request_codec  # Imported lazily, because the registry imports this class.

        return find_request_codec(content_type, payload, type_hint, added=added)

    @classmethod
    def encode_response(
        cls, model_name: str, payload: Any, model_version: str | None = None, **options: Any
    ) -> InferenceResponse:
        """Encode a payload as the response of a model."""
        raise NotImplementedError(f"{cls.__name__} does not encode responses")

    @classmethod
    def decode_response(cls, response: InferenceResponse) -> Any:
        """Decode a response. The inverse of `encode_response`."""
        raise NotImplementedError(f"{cls.__name__} does not decode responses")

    @classmethod
    def encode_request(cls, payload: Any, **options: Any) -> InferenceRequest:
        """Encode a payload as a request."""
        raise NotImplementedError(f"{cls.__name__} does not encode requests")

    @classmethod
    def decode_request(cls, request: InferenceRequest) -> Any:
        """Decode a request. The inverse of `encode_request`."""
        raise NotImplementedError(f"{cls.__name__} does not decode requests")

    @classmethod
    def encode(cls, model_name: str, payload: Any, model_version: str | None = None) -> InferenceResponse:
        """Deprecated alias of `encode_response`."""
        warnings.warn("encode is deprecated, use encode_response", DeprecationWarning, stacklevel=2)
        return cls.encode_response(model_name, payload, model_version)

    @classmethod
    def decode(cls, request: InferenceRequest) -> Any:
        """Deprecated alias of `decode_request`."""
        warnings.warn("decode is deprecated, use decode_request", DeprecationWarning, stacklevel=2)
        return cls.decode_request(request)


InputCodecLike = type[InputCodec] | InputCodec
RequestCodecLike = type[RequestCodec] | RequestCodec


class SingleInputRequestCodec(RequestCodec):
    """A request codec for payloads that are a single tensor, which `InputCodec` converts.

    Raises CodecError for requests and responses that do not have exactly one tensor.
    """

    InputCodec: ClassVar[InputCodecLike]

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return cls.InputCodec.can_encode(payload)

    @classmethod
    def encode_response(
        cls, model_name: str, payload: Any, model_version: str | None = None, **options: Any
    ) -> InferenceResponse:
        output = cls.InputCodec.encode_output(f"{OUTPUT_PREFIX}1", payload, **options)
        return build_response(model_name, model_version, [output], cls.ContentType)

    @classmethod
    def decode_response(cls, response: InferenceResponse) -> Any:
        return cls.InputCodec.decode_output(_only(response.outputs, "output", cls.ContentType))

    @classmethod
    def encode_request(cls, payload: Any, **options: Any) -> InferenceRequest:
        inputs = [cls.InputCodec.encode_input(f"{INPUT_PREFIX}1", payload, **options)]
        return InferenceRequest.of(inputs, None, content_type(cls.ContentType))

    @classmethod
    def decode_request(cls, request: InferenceRequest) -> Any:
        tensor = _only(request.inputs, "input", cls.ContentType)
        if has_decoded(tensor):
            return get_decoded(tensor)
        return cls.InputCodec.decode_input(tensor)


def _only(tensors: list[Any], kind: str, content: str) -> Any:
    if len(tensors) != 1:
        raise CodecError(f'The "{content}" codec takes requests with a single {kind}, got {len(tensors)}.')
    return tensors[0]


def content_type(name: str) -> Parameters:
    """Return parameters with a content type."""
    return Parameters.of(None, name)


def build_response(
    model_name: str, model_version: str | None, outputs: list[ResponseOutput], content: str | None = None
) -> InferenceResponse:
    parameters = None if content is None else content_type(content)
    return InferenceResponse.of(model_name, outputs, model_version, None, parameters)
