"""What a codec is: class methods that turn a typed payload into tensors and back."""

import warnings
from typing import Any, ClassVar

from ..errors import CodecError
from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    ResponseOutput,
)
from .decoded import get_decoded, has_decoded

INPUT_PREFIX = "input-"
OUTPUT_PREFIX = "output-"


class InputCodec:
    """Encodes and decodes one tensor. Subclass, override, and register with `register_input_codec`."""

    ContentType: ClassVar[str] = ""
    TypeHint: ClassVar[Any] = type(None)
    OtherTypeHints: ClassVar[tuple[Any, ...]] = ()

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        """Whether this codec knows what to do with `payload`."""
        return False

    @classmethod
    def encode_output(cls, name: str, payload: Any, **options: Any) -> ResponseOutput:
        raise NotImplementedError(f"{cls.__name__} does not encode outputs")

    @classmethod
    def decode_output(cls, response_output: ResponseOutput) -> Any:
        raise NotImplementedError(f"{cls.__name__} does not decode outputs")

    @classmethod
    def encode_input(cls, name: str, payload: Any, **options: Any) -> RequestInput:
        raise NotImplementedError(f"{cls.__name__} does not encode inputs")

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> Any:
        raise NotImplementedError(f"{cls.__name__} does not decode inputs")

    @classmethod
    def describe_tensor(cls, name: str, hint: Any, is_output: bool) -> MetadataTensor | None:
        """The tensor of a value that is annotated with `hint`; None where the hint does not say its datatype."""
        return None

    @classmethod
    def encode(cls, name: str, payload: Any) -> ResponseOutput:
        """Deprecated name of `encode_output`."""
        warnings.warn("encode is deprecated, use encode_output", DeprecationWarning, stacklevel=2)
        return cls.encode_output(name, payload)

    @classmethod
    def decode(cls, request_input: RequestInput) -> Any:
        """Deprecated name of `decode_input`."""
        warnings.warn("decode is deprecated, use decode_input", DeprecationWarning, stacklevel=2)
        return cls.decode_input(request_input)


class RequestCodec:
    """Encodes and decodes a whole request or response. Register with `register_request_codec`."""

    ContentType: ClassVar[str] = ""
    TypeHint: ClassVar[Any] = type(None)
    OtherTypeHints: ClassVar[tuple[Any, ...]] = ()

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        """Whether this codec knows what to do with `payload`."""
        return False

    @classmethod
    def encode_response(
        cls, model_name: str, payload: Any, model_version: str | None = None, **options: Any
    ) -> InferenceResponse:
        raise NotImplementedError(f"{cls.__name__} does not encode responses")

    @classmethod
    def decode_response(cls, response: InferenceResponse) -> Any:
        raise NotImplementedError(f"{cls.__name__} does not decode responses")

    @classmethod
    def encode_request(cls, payload: Any, **options: Any) -> InferenceRequest:
        raise NotImplementedError(f"{cls.__name__} does not encode requests")

    @classmethod
    def decode_request(cls, request: InferenceRequest) -> Any:
        raise NotImplementedError(f"{cls.__name__} does not decode requests")

    @classmethod
    def encode(cls, model_name: str, payload: Any, model_version: str | None = None) -> InferenceResponse:
        """Deprecated name of `encode_response`."""
        warnings.warn("encode is deprecated, use encode_response", DeprecationWarning, stacklevel=2)
        return cls.encode_response(model_name, payload, model_version)

    @classmethod
    def decode(cls, request: InferenceRequest) -> Any:
        """Deprecated name of `decode_request`."""
        warnings.warn("decode is deprecated, use decode_request", DeprecationWarning, stacklevel=2)
        return cls.decode_request(request)


InputCodecLike = type[InputCodec] | InputCodec
RequestCodecLike = type[RequestCodec] | RequestCodec


class SingleInputRequestCodec(RequestCodec):
    """A request codec for payloads that are one tensor, coded by `InputCodec`."""

    InputCodec: ClassVar[InputCodecLike]

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return cls.InputCodec.can_encode(payload)

    @classmethod
    def encode_response(
        cls, model_name: str, payload: Any, model_version: str | None = None, **options: Any
    ) -> InferenceResponse:
        output = cls.InputCodec.encode_output(f"{OUTPUT_PREFIX}1", payload, **options)
        return response_of(model_name, model_version, [output], cls.ContentType)

    @classmethod
    def decode_response(cls, response: InferenceResponse) -> Any:
        return cls.InputCodec.decode_output(_only(response.outputs, "output", cls.ContentType))

    @classmethod
    def encode_request(cls, payload: Any, **options: Any) -> InferenceRequest:
        return InferenceRequest.trusted(
            {
                "parameters": content_type(cls.ContentType),
                "inputs": [cls.InputCodec.encode_input(f"{INPUT_PREFIX}1", payload, **options)],
            }
        )

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


FIELDS = {"name", "shape", "datatype", "parameters", "data"}
"""Every field of a tensor, all of which a codec gives."""


def content_type(name: str) -> Parameters:
    """Parameters that name a codec."""
    return Parameters.filled({"content_type": name, "headers": None}, {"content_type"})


def response_of(
    model_name: str, model_version: str | None, outputs: list[ResponseOutput], content: str | None = None
) -> InferenceResponse:
    """A response of these outputs."""
    fields: dict[str, Any] = {"model_name": model_name, "outputs": outputs}
    if model_version is not None:
        fields["model_version"] = model_version
    if content is not None:
        fields["parameters"] = content_type(content)
    return InferenceResponse.trusted(fields)
