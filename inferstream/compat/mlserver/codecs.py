"""MLServer's codec functions with its own parameters, and its functions for raw tensors."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin

import numpy as np

from inferstream import ModelSettings, NumpyRequestCodec, decode_args
from inferstream import codecs as ours
from inferstream.codecs import (
    DecodedParameterName,
    InputCodec,
    InputCodecLike,
    RequestCodec,
    RequestCodecLike,
    has_decoded,
    register_input_codec,
    register_request_codec,
)
from inferstream.errors import CodecNotFound
from inferstream.ext.values import Array
from inferstream.ext.values import encode_array as encoded
from inferstream.ext.values import to_dtype as dtype_of
from inferstream.types import (
    Datatype,
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
    TensorData,
)

INPUT_PREFIX = "input-"
OUTPUT_PREFIX = "output-"
"""How the names of tensors begin that have none of their own."""


def find_input_codec(
    content_type: str | None = None, payload: Any = None, type_hint: Any = None
) -> InputCodecLike | None:
    """The codec for a content type, else for a type hint, else for a payload.

    One of ours that MLServer does not have is found by its content type only, because callers have their own.
    """
    return InputCodec.find(content_type, payload, type_hint, added=False)


def find_input_codec_by_payload(payload: Any) -> InputCodecLike | None:
    return find_input_codec(payload=payload)


def find_input_codec_by_type_hint(type_hint: Any) -> InputCodecLike | None:
    return find_input_codec(type_hint=type_hint)


def find_request_codec(
    content_type: str | None = None, payload: Any = None, type_hint: Any = None
) -> RequestCodecLike | None:
    """The codec for a content type, else for a type hint, else for a payload.

    One of ours that MLServer does not have is found by its content type only, because callers have their own.
    """
    return RequestCodec.find(content_type, payload, type_hint, added=False)


def find_request_codec_by_payload(payload: Any) -> RequestCodecLike | None:
    return find_request_codec(payload=payload)


def find_request_codec_by_type_hint(type_hint: Any) -> RequestCodecLike | None:
    return find_request_codec(type_hint=type_hint)


class _CodecRegistry:
    """Registers and finds codecs."""

    find_input_codec = staticmethod(find_input_codec)
    find_input_codec_by_payload = staticmethod(find_input_codec_by_payload)
    find_input_codec_by_type_hint = staticmethod(find_input_codec_by_type_hint)
    find_request_codec = staticmethod(find_request_codec)
    find_request_codec_by_payload = staticmethod(find_request_codec_by_payload)
    find_request_codec_by_type_hint = staticmethod(find_request_codec_by_type_hint)

    @staticmethod
    def register_input_codec(content_type: str, codec: InputCodecLike) -> None:
        register_input_codec(codec, content_type)

    @staticmethod
    def register_request_codec(content_type: str, codec: RequestCodecLike) -> None:
        register_request_codec(codec, content_type)


_codec_registry = _CodecRegistry()

PredictFunc = Callable[[Any, InferenceRequest], Awaitable[InferenceResponse]]


class SignatureCodec(RequestCodec):
    """The codec of a function's arguments and return value."""

    def __init__(self, predict: Callable[..., Any]) -> None:
        decorated: Any = decode_args(predict)
        self._codec = decorated.signature_codec

    def decode_request(self, request: InferenceRequest) -> dict[str, Any]:  # type: ignore[override]
        arguments: dict[str, Any] = self._codec.decode_request(request)
        return arguments

    def encode_response(  # type: ignore[override]
        self, model_name: str, payload: Any, model_version: str | None = None
    ) -> InferenceResponse:
        response: InferenceResponse = self._codec.encode_response(payload, model_name, model_version)
        return response


SingleInputRequestCodec: Any = NumpyRequestCodec.__base__
"""The base of request codecs for payloads of one tensor. A subclass sets `InputCodec` and `ContentType`."""


def _as_list(returned: Any) -> list[Any]:
    """The annotation of each value that a function returns."""
    if returned is None:
        return []
    if isinstance(returned, tuple):
        return list(returned)
    return list(get_args(returned)) if get_origin(returned) is tuple else [returned]


def inject_batch_dimension(shape: list[int]) -> list[int]:
    """The shape of a tensor: [N] becomes [N, 1], a scalar becomes [1]."""
    return [1] if not shape else [*shape, 1] if len(shape) == 1 else shape


InputOrOutput = RequestInput | ResponseOutput
Codec = InputCodecLike | RequestCodecLike
Parametrised = InputOrOutput | RequestOutput | InferenceRequest | InferenceResponse
Tagged = MetadataTensor | ModelSettings
Index = Mapping[str, MetadataTensor]
NOTHING_DECLARED: Index = MappingProxyType({})


def decode_request_input(request_input: RequestInput, metadata_inputs: Index = NOTHING_DECLARED) -> Any:
    """The payload of an input, decoded once and stored; None when there is no codec."""
    payload = ours.decode_request_input(request_input, metadata_inputs)
    return payload if has_decoded(request_input) else None


def decode_inference_request(
    inference_request: InferenceRequest,
    model_settings: ModelSettings | None = None,
    metadata_inputs: Index = NOTHING_DECLARED,
) -> Any:
    """The payload of a request: decodes each input with its codec, then all with the request's codec.

    Returns the request itself when it has no codec.
    """
    parameters = model_settings.parameters if model_settings is not None else None
    content_type = parameters.content_type if parameters is not None else None
    return ours.decode_inference_request(inference_request, metadata_inputs, content_type)


def encode_response_output(
    payload: Any, request_output: RequestOutput, metadata_outputs: Index = NOTHING_DECLARED
) -> ResponseOutput | None:
    """One output, by the requested codec, the declared one, or one that can encode the payload; else None."""
    try:
        return ours.encode_response_output(payload, request_output, metadata_outputs)
    except CodecNotFound:
        return None


def encode_inference_response(payload: Any, model_settings: ModelSettings) -> InferenceResponse | None:
    """A response by the codec that can encode the payload, or None."""
    try:
        return ours.encode_inference_response(payload, model_settings.name, model_settings.version)
    except CodecNotFound:
        return None


def _save_decoded(parametrised_obj: Any, decoded_payload: Any) -> Any:
    """Store the decoded form of a tensor, a request or a response, and return it. Dumps omit it."""
    parameters = parametrised_obj.parameters
    if parameters is None:
        parameters = parametrised_obj.parameters = Parameters.aside()
    elif parameters.has_decoded and not has_decoded(parametrised_obj):
        parameters = parametrised_obj.parameters = parameters.model_copy()  # those of another tensor
    setattr(parameters, DecodedParameterName, decoded_payload)
    return decoded_payload


ListElement = bytes | str
ListPayload = ListElement | list[ListElement]


def is_list_of(payload: Any, instance_type: type | tuple[type, ...]) -> bool:
    """Whether `payload` is a list of `instance_type` only; true for an empty list."""
    return isinstance(payload, list) and all(isinstance(value, instance_type) for value in payload)


def as_list(payload: ListPayload) -> Iterator[ListElement]:
    """The elements of a list. Any other value is one element."""
    return iter(payload if isinstance(payload, list) else [payload])


def encode_str(elem: str) -> bytes:
    return elem.encode()


def decode_str(encoded: bytes | str | None, str_codec: str = "utf-8") -> str | None:
    """Encoded bytes or text as text; None stays None. Raises TypeError or UnicodeDecodeError."""
    return encoded if encoded is None or isinstance(encoded, str) else str(encoded, str_codec)


def to_dtype(input_or_output: InputOrOutput | Datatype | str) -> "np.dtype[Any]":
    """The dtype of a datatype or tensor. A BYTES tensor has that of text, or of bytes of its last dimension."""
    if not isinstance(input_or_output, RequestInput | ResponseOutput):
        return dtype_of(input_or_output)
    if input_or_output.datatype != "BYTES":
        return dtype_of(input_or_output.datatype)
    return np.dtype(str if is_list_of(input_or_output.data.root, str) else (bytes, input_or_output.shape[-1]))


def convert_nan(val: Any) -> Any:
    return None if val != val else val


def _encode_data(data: Array, datatype: Datatype | str) -> list[Any]:
    values: list[Any] = encoded(ResponseOutput, "", data).data.root
    return values


Tensor = TypeVar("Tensor", RequestInput, ResponseOutput)


def unpack(elem: InputOrOutput, raw: bytes) -> list[Any]:
    """The values in `raw`, with the datatype of the tensor."""
    return TensorData.from_raw(raw, elem.datatype).flat()


def pack(elem: InputOrOutput) -> bytes:
    """The values of a tensor as raw bytes."""
    return bytes(elem.data.to_raw(elem.datatype))


def inject_raw(elems: list[Tensor], raw_contents: list[bytes]) -> list[Tensor]:
    """Put raw contents into the tensors without data, in order; returns the same tensors."""
    contents = iter(raw_contents)
    for elem in elems:
        if not len(elem.data):
            elem.data = TensorData.from_raw(next(contents), elem.datatype)
    return elems


def extract_raw(elems: list[Tensor]) -> tuple[list[Tensor], list[bytes]]:
    """Remove the data of the tensors; returns the same tensors and their data as raw bytes."""
    raw_contents = [pack(elem) for elem in elems]
    for elem in elems:
        elem.data = TensorData([])
    return elems, raw_contents
