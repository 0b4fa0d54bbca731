"""MLServer's codec functions with its own parameters, and its functions for raw tensors."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np

from inferstream import ModelSettings
from inferstream.codecs import InputCodecLike, RequestCodec, RequestCodecLike, lookup, signature
from inferstream.codecs.lists import is_list_of
from inferstream.codecs.registry import CodecTable, inputs, requests
from inferstream.errors import CodecNotFound
from inferstream.ext.values import Array, has_decoded
from inferstream.ext.values import encode_array as encoded
from inferstream.ext.values import to_dtype as dtype_of
from inferstream.types import (
    Datatype,
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    RequestInput,
    RequestOutput,
    ResponseOutput,
    TensorData,
)

AnyCodec = TypeVar("AnyCodec", InputCodecLike, RequestCodecLike)


class _Finder(Generic[AnyCodec]):
    """Finds codecs of one kind. One of ours that MLServer does not have is found by its content type alone.

    Otherwise callers would not choose their own.
    """

    def __init__(self, table: CodecTable[AnyCodec]) -> None:
        self._table: CodecTable[AnyCodec] = table

    def find(
        self, content_type: str | None = None, payload: Any = None, type_hint: Any = None
    ) -> AnyCodec | None:
        codec = self._table.find(content_type, payload, type_hint)
        return codec if content_type else self._known(codec)

    def by_payload(self, payload: Any) -> AnyCodec | None:
        return self._known(self._table.by_payload(payload))

    def by_type_hint(self, type_hint: Any) -> AnyCodec | None:
        return self._known(self._table.by_type_hint(type_hint))

    def _known(self, codec: AnyCodec | None) -> AnyCodec | None:
        return None if codec in self._table.added.values() else codec


_inputs = _Finder(inputs)
_requests = _Finder(requests)


class _CodecRegistry:
    find_input_codec = staticmethod(_inputs.find)
    find_input_codec_by_payload = staticmethod(_inputs.by_payload)
    find_input_codec_by_type_hint = staticmethod(_inputs.by_type_hint)
    find_request_codec = staticmethod(_requests.find)
    find_request_codec_by_payload = staticmethod(_requests.by_payload)
    find_request_codec_by_type_hint = staticmethod(_requests.by_type_hint)
    register_input_codec = staticmethod(inputs.register)
    register_request_codec = staticmethod(requests.register)


_codec_registry = _CodecRegistry()

PredictFunc = Callable[[Any, InferenceRequest], Awaitable[InferenceResponse]]


class SignatureCodec(RequestCodec):
    """The codec of a function's arguments and return value."""

    def __init__(self, predict: Callable[..., Any]) -> None:
        self._codec = signature.SignatureCodec(predict)

    def decode_request(self, request: InferenceRequest) -> dict[str, Any]:  # type: ignore[override]
        return self._codec.decode_request(request)

    def encode_response(  # type: ignore[override]
        self, model_name: str, payload: Any, model_version: str | None = None
    ) -> InferenceResponse:
        return self._codec.encode_response(payload, model_name, model_version)


InputOrOutput = RequestInput | ResponseOutput
Codec = InputCodecLike | RequestCodecLike
Parametrised = InputOrOutput | RequestOutput | InferenceRequest | InferenceResponse
Tagged = MetadataTensor | ModelSettings
Index = Mapping[str, MetadataTensor]


def decode_request_input(
    request_input: RequestInput, metadata_inputs: Index = lookup.NOTHING_DECLARED
) -> Any:
    """The payload of an input, decoded once and stored; None when there is no codec."""
    if not has_decoded(request_input) and lookup.input_codec(request_input, metadata_inputs) is None:
        return None
    return lookup.decode_request_input(request_input, metadata_inputs)


def decode_inference_request(
    inference_request: InferenceRequest,
    model_settings: ModelSettings | None = None,
    metadata_inputs: Index = lookup.NOTHING_DECLARED,
) -> Any:
    """The payload of a request: decodes each input with its codec, then all with the request's codec.

    Returns the request itself when it has no codec.
    """
    parameters = model_settings.parameters if model_settings is not None else None
    content_type = parameters.content_type if parameters is not None else None
    return lookup.decode_inference_request(inference_request, metadata_inputs, content_type)


def encode_response_output(
    payload: Any, request_output: RequestOutput, metadata_outputs: Index = lookup.NOTHING_DECLARED
) -> ResponseOutput | None:
    """One output, by the requested codec, the declared one, or one that can encode the payload; else None."""
    try:
        return lookup.encode_response_output(payload, request_output, metadata_outputs)
    except CodecNotFound:
        return None


def encode_inference_response(payload: Any, model_settings: ModelSettings) -> InferenceResponse | None:
    """A response by the codec that can encode the payload, or None."""
    try:
        return lookup.encode_inference_response(payload, model_settings.name, model_settings.version)
    except CodecNotFound:
        return None


ListElement = bytes | str
ListPayload = ListElement | list[ListElement]


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
