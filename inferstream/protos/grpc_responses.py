"""Writes inference responses as the bytes of a ModelInferResponse, without building the message.

This takes 3.4 µs for a token instead of 8.2 µs with protobuf objects. The bytes are a sequence of fields.
Each field is a key (number and wire type), a length for most types, and a value (protobuf's "Encoding"). For
values of fixed size, the packed encoding equals the raw representation of a tensor.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..types import InferenceResponse, Parameters, ResponseOutput
from ..types.conversion import to_bytes
from ..types.forms import OutputForm
from .dataplane_pb2 import InferTensorContents, ModelInferResponse
from .grpc import FIELDS, write_parameters
from .unwritable_outputs import log_unwritable_output

Parts = list[bytes | memoryview]

ID, OUTPUT, RAW = b"\x1a", b"\x2a", b"\x32"
"""Keys of `id`, `outputs` and `raw_output_contents` in ModelInferResponse."""

CONTENTS = b"\x2a"
"""The key of `contents` in InferOutputTensor."""

PACKED = {"BOOL": b"\x0a", "FP32": b"\x32", "FP64": b"\x3a"}
"""Keys of contents whose packed encoding equals the raw representation of the tensor."""

ELEMENT = b"\x42"
"""The key of one element of `bytes_contents`."""


class WholeMessages:
    """Writes ModelInferResponses whose outputs are all typed or all raw.

    An FP16 or BF16 output makes all outputs raw. The result is a copy, because models reuse their arrays for
    the next call, which may start before a slow client has read this response. Raises InvalidOutput.
    """

    __slots__ = ("_typed",)

    def __init__(self, typed: bool) -> None:
        self._typed = typed

    def value(self, form: OutputForm, response: InferenceResponse) -> bytes:
        head, opening = _frame(form)
        if response.id:
            head = _with_request_id(head, response.id)
        datatype, value, typed = form.datatype, response.value, self._typed
        if datatype != "BYTES":
            key, raw = VALUES[datatype]
            element = raw(value)
            if typed and datatype == "INT64":
                element = encode_varint(value & 0xFFFF_FFFF_FFFF_FFFF)
        else:
            key, element = ELEMENT, value if type(value) is bytes else _encode_element(form, value)
        return _one_value(head, opening, datatype, key, element, typed)

    def tensors(self, response: InferenceResponse) -> bytes:
        outputs = response.outputs
        head = _names(response.model_name, response.model_version or "")
        if response.id:
            head = _with_request_id(head, response.id)
        if response.parameters is not None:
            head += _parameters(response.parameters)
        typed = self._typed
        for tensor in outputs:
            typed = typed and tensor.datatype in FIELDS
        parts: Parts = [head]
        raws: Parts = []
        for tensor in outputs:
            try:
                opening = _opening(tensor)
                if len(outputs) == 1 and (text := _only_text(tensor)) is not None:
                    return _one_value(head, opening, "BYTES", ELEMENT, text, typed)
                if typed:
                    contents = _contents(tensor)
                    size = sum(map(len, contents))
                    behind = encode_varint(size)
                    parts += (OUTPUT, encode_varint(len(opening) + 1 + len(behind) + size), opening)
                    parts += (CONTENTS, behind, *contents)
                else:
                    parts += (OUTPUT, encode_varint(len(opening)), opening)
                    raw = tensor.data.to_raw(tensor.datatype)
                    raws += (RAW, encode_varint(len(raw)), raw)
            except (TypeError, ValueError) as error:
                raise log_unwritable_output(error, tensor.name, response.model_name) from error
        return b"".join(parts + raws)


WRITERS = {typed: WholeMessages(typed) for typed in (False, True)}
"""The writers of messages with typed contents (True) and raw contents (False)."""


def _with_request_id(head: bytes, request_id: str) -> bytes:
    encoded = request_id.encode()
    return b"%b%b%b%b" % (head, ID, encode_varint(len(encoded)), encoded)


def _one_value(head: bytes, opening: bytes, datatype: str, key: bytes, element: bytes, typed: bool) -> bytes:
    """Return a response with one value in its only output. `key` is the key of the typed contents."""
    size = encode_varint(len(element))
    if typed:
        inner = 1 + len(size) + len(element)
        behind = encode_varint(inner)
        whole = encode_varint(len(opening) + 1 + len(behind) + inner)
        return b"".join((head, OUTPUT, whole, opening, CONTENTS, behind, key, size, element))
    if datatype == "BYTES":
        element = len(element).to_bytes(4, "little") + element
        size = encode_varint(len(element))
    return b"".join((head, OUTPUT, encode_varint(len(opening)), opening, RAW, size, element))


VALUES: dict[str, tuple[bytes, Callable[[Any], bytes]]] = {
    "BOOL": (PACKED["BOOL"], struct.Struct("<?").pack),
    "INT64": (b"\x1a", struct.Struct("<q").pack),
    "FP64": (PACKED["FP64"], struct.Struct("<d").pack),
}
"""For each datatype, the key of a single typed value, and a function that packs it for raw contents."""


@lru_cache(1024)
def _frame(form: OutputForm) -> tuple[bytes, bytes]:
    """Return the encoded names in a single-value response, and its output without contents."""
    names = _names(form.model_name, form.model_version or "")
    return names, _plain_opening(form.name, form.datatype, form.shape, None)


def _only_text(tensor: ResponseOutput) -> bytes | None:
    """Return the bytes of a tensor with a single string, such as a token. Returns None for other tensors."""
    if tensor.datatype != "BYTES":
        return None
    values = tensor.data.values
    if type(values) is not list or len(values) != 1:
        return None
    value = values[0]
    if type(value) is bytes:
        return value
    return value.encode() if type(value) is str else None


def _encode_element(form: OutputForm, value: Any) -> bytes:
    try:
        return to_bytes(value)
    except UnicodeEncodeError as error:
        raise log_unwritable_output(error, form.name, form.model_name) from error


_LENGTHS = [bytes((size,)) for size in range(128)]


def encode_varint(size: int) -> bytes:
    """Encode a length, or a 64-bit number, as a varint.

    A varint has seven bits per byte, lowest first. All bytes except the last have the top bit set.
    """
    if size < 128:
        return _LENGTHS[size]
    encoded = bytearray()
    while size > 127:
        encoded.append(size & 127 | 128)
        size >>= 7
    encoded.append(size)
    return bytes(encoded)


@lru_cache(256)
def _names(model: str, version: str) -> bytes:
    return ModelInferResponse(model_name=model, model_version=version).SerializeToString()


def _parameters(parameters: Parameters) -> bytes:
    message = ModelInferResponse()
    write_parameters(parameters, message.parameters)
    return message.SerializeToString()


def _opening(tensor: ResponseOutput) -> bytes:
    """Return an output without its contents, which is the same for most responses of a model."""
    parameters = tensor.parameters
    if parameters is None:
        return _plain_opening(tensor.name, tensor.datatype, tuple(tensor.shape), None)
    if not parameters.__pydantic_extra__:
        return _plain_opening(tensor.name, tensor.datatype, tuple(tensor.shape), parameters.content_type)
    return _any_opening(tensor.name, tensor.datatype, tensor.shape, parameters)


@lru_cache(1024)
def _plain_opening(name: str, datatype: str, shape: tuple[int, ...], content_type: str | None) -> bytes:
    parameters = None if content_type is None else Parameters.of(None, content_type)
    return _any_opening(name, datatype, shape, parameters)


def _any_opening(name: str, datatype: str, shape: Sequence[int], parameters: Parameters | None) -> bytes:
    message = ModelInferResponse.InferOutputTensor(name=name, datatype=datatype, shape=shape)
    write_parameters(parameters, message.parameters)
    return message.SerializeToString()


def _contents(tensor: ResponseOutput) -> Parts:
    datatype = tensor.datatype
    if datatype == "BYTES":
        parts: Parts = []
        for value in tensor.data.flat():
            element = value if type(value) is bytes else to_bytes(value)
            parts += (ELEMENT, encode_varint(len(element)), element)
        return parts
    key = PACKED.get(datatype)
    if key is not None:
        packed = tensor.data.to_raw(datatype)
        return [key, encode_varint(len(packed)), packed] if packed else []
    values: list[Any] = tensor.data.to_numpy(datatype).reshape(-1).tolist()
    return [InferTensorContents(**{FIELDS[datatype]: values}).SerializeToString()]
