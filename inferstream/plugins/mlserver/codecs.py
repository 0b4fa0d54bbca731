"""Codec functions with MLServer signatures, and functions for raw tensors."""

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
"""The prefixes of generated tensor names."""


def find_input_codec(
    content_type: str | None = None, payload: Any = None, type_hint: Any = None
) -> InputCodecLike | None:
    """Return the codec for a content type, a type hint or a payload, in this order.

    Codecs that MLServer does not have are found only by content type, because callers may define similar
    ones.
    """
    return InputCodec.find(content_type, payload, type_hint, added=False)


def find_input_codec_by_payload(payload: Any) -> InputCodecLike | None:
    return find_input_codec(payload=payload)


def find_input_codec_by_type_hint(type_hint: Any) -> InputCodecLike | None:
    return find_input_codec(type_hint=type_hint)


def find_request_codec(
    content_type: str | None = None, payload: Any = None, type_hint: Any = None
) -> RequestCodecLike | None:
    """Return the codec for a content type, a type hint or a payload, in this order.

    Codecs that MLServer does not have are found only by content type, because callers may define similar
    ones.
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
"""Base class of request codecs for a single tensor. Subclasses set `InputCodec` and `ContentType`."""


def _as_list(returned: Any) -> list[Any]:
    """Return the annotations of the values that a function returns."""
    if returned is None:
        return []
    if isinstance(returned, tuple):
        return list(returned)
    return list(get_args(returned)) if get_origin(returned) is tuple else [returned]


def inject_batch_dimension(shape: list[int]) -> list[int]:
    """Add a dimension to a shape: [N] becomes [N, 1], and a scalar becomes [1]."""
    return [1] if not shape else [*shape, 1] if len(shape) == 1 else shape


InputOrOutput = RequestInput | ResponseOutput
Codec = InputCodecLike | RequestCodecLike
Parametrised = InputOrOutput | RequestOutput | InferenceRequest | InferenceResponse
Tagged = MetadataTensor | ModelSettings
Index = Mapping[str, MetadataTensor]
NOTHING_DECLARED: Index = MappingProxyType({})


def decode_request_input(request_input: RequestInput, metadata_inputs: Index = NOTHING_DECLARED) -> Any:
    """Decode an input once and store the result. Returns None if no codec matches."""
    payload = ours.decode_request_input(request_input, metadata_inputs)
    return payload if has_decoded(request_input) else None


def decode_inference_request(
    inference_request: InferenceRequest,
    model_settings: ModelSettings | None = None,
    metadata_inputs: Index = NOTHING_DECLARED,
) -> Any:
    """Decode a request: each input with its codec, then all inputs with the request codec.

    Returns the request itself if it has no codec.
    """
    parameters = model_settings.parameters if model_settings is not None else None
    content_type = parameters.content_type if parameters is not None else None
    return ours.decode_inference_request(inference_request, metadata_inputs, content_type)


def encode_response_output(
    payload: Any, request_output: RequestOutput, metadata_outputs: Index = NOTHING_DECLARED
) -> ResponseOutput | None:
    """Encode an output with the requested codec, the declared codec or a codec for the payload.

    Returns None without a codec.
    """
    try:
        return ours.encode_response_output(payload, request_output, metadata_outputs)
    except CodecNotFound:
        return None


def encode_inference_response(payload: Any, model_settings: ModelSettings) -> InferenceResponse | None:
    """Encode a response with a codec for the payload. Returns None without a codec."""
    try:
        return ours.encode_inference_response(payload, model_settings.name, model_settings.version)
    except CodecNotFound:
        return None


def _save_decoded(parametrised_obj: Any, decoded_payload: Any) -> Any:
    """Store the decoded payload of a tensor, request or response, and return it. Serialization omits it."""
    parameters = parametrised_obj.parameters
    if parameters is None:
        parameters = parametrised_obj.parameters = Parameters.aside()
    elif parameters.has_decoded and not has_decoded(parametrised_obj):
        # The parameters may belong to another tensor.
        parameters = parametrised_obj.parameters = parameters.model_copy()
    setattr(parameters, DecodedParameterName, decoded_payload)
    return decoded_payload


ListElement = bytes | str
ListPayload = ListElement | list[ListElement]


def is_list_of(payload: Any, instance_type: type | tuple[type, ...]) -> bool:
    """Whether `payload` is a list with elements of only this type. True for an empty list."""
    return isinstance(payload, list) and all(isinstance(value, instance_type) for value in payload)


def as_list(payload: ListPayload) -> Iterator[ListElement]:
    """Iterate over the elements of a list. Any other value is a single element."""
    return iter(payload if isinstance(payload, list) else [payload])


def encode_str(elem: str) -> bytes:
    return elem.encode()


def decode_str(encoded: bytes | str | None, str_codec: str = "utf-8") -> str | None:
    """Decode bytes. Strings and None are returned unchanged. Raises TypeError or UnicodeDecodeError."""
    return encoded if encoded is None or isinstance(encoded, str) else str(encoded, str_codec)


def to_dtype(input_or_output: InputOrOutput | Datatype | str) -> "np.dtype[Any]":
    """Return the NumPy dtype of a datatype or tensor.

    For a BYTES tensor, it is `str`, or bytes with the length of the last dimension.
    """
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
    """Decode raw bytes with the datatype of the tensor."""
    return TensorData.from_raw(raw, elem.datatype).flat()


def pack(elem: InputOrOutput) -> bytes:
    """Encode the values of a tensor as raw bytes."""
    return bytes(elem.data.to_raw(elem.datatype))


def inject_raw(elems: list[Tensor], raw_contents: list[bytes]) -> list[Tensor]:
    """Fill tensors without data from raw contents, in order. Returns the same tensors."""
    contents = iter(raw_contents)
    for elem in elems:
        if not len(elem.data):
            elem.data = TensorData.from_raw(next(contents), elem.datatype)
    return elems


def extract_raw(elems: list[Tensor]) -> tuple[list[Tensor], list[bytes]]:
    """Remove the data from tensors. Returns the same tensors and their data as raw bytes."""
    raw_contents = [pack(elem) for elem in elems]
    for elem in elems:
        elem.data = TensorData([])
    return elems, raw_contents
