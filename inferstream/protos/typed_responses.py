"""Writes the responses of typed RPCs. Texts and arrays are written as bytes, without protobuf's objects."""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from ..errors import InvalidOutput
from ..types import InferenceResponse, ResponseOutput
from ..types.conversion import to_bytes
from ..types.forms import OutputForm
from .grpc import contents_of
from .grpc_responses import length
from .typed import DTYPES, Field, Method
from .unwritable_outputs import unwritable

Write = Callable[[Any], bytes]
"""Writes a value with the key of its field."""

PACKED = {"float": "FP32", "double": "FP64"}
"""Datatypes whose raw form is the packed form of a list of this type."""

SHAPE, DTYPE, DATA = b"\x0a", b"\x12", b"\x1a"
"""Keys of TensorProto's fields."""

BLOCK = 2
"""The wire type of values with a length."""


class ResponseWriter:
    """Writes the responses of one RPC's model. Raises InvalidOutput for outputs that the model does not declare."""

    def __init__(self, method: Method, message: type[Message]) -> None:
        self._method = method
        self._fields = {
            field.tensor.name: (field, _tensor_writer(field, message)) for field in method.response
        }
        self._only: Write | None = None
        """Writes the value of a response of one value."""
        if len(method.response) == 1:
            (field,) = method.response
            if not field.repeated and not field.is_tensor:
                self._only = _value_writer(field, message)

    def value(self, form: OutputForm, response: InferenceResponse) -> bytes:
        if self._only is None:
            return self.tensors(response)
        try:
            return self._only(response.value)
        except (TypeError, ValueError) as error:
            raise unwritable(error, form.name, form.model_name) from error

    def tensors(self, response: InferenceResponse) -> bytes:
        parts = []
        for tensor in response.outputs:
            known = self._fields.get(tensor.name)
            if known is None:
                raise InvalidOutput(
                    f'Model {self._method.model} returned the output "{tensor.name}", '
                    f"which {self._method.messages[1]} does not have."
                )
            try:
                parts.append(known[1](tensor))
            except (TypeError, ValueError) as error:
                raise unwritable(error, tensor.name, response.model_name) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _tensor_writer(field: Field, message: type[Message]) -> Callable[[ResponseOutput], bytes]:
    if field.is_tensor:
        key = _key(field.number, BLOCK)
        return lambda tensor: _array(key, tensor)
    if field.repeated:
        return _list_writer(field, message)
    write = _value_writer(field, message)

    def single(tensor: ResponseOutput) -> bytes:
        values = contents_of(tensor.data, tensor.datatype)
        if len(values) != 1:
            raise ValueError(f"it has {len(values)} values, and its field takes one")
        return write(values[0])

    return single


def _list_writer(field: Field, message: type[Message]) -> Callable[[ResponseOutput], bytes]:
    name, key, raw_datatype = field.name, _key(field.number, BLOCK), PACKED.get(field.type)

    def packed(tensor: ResponseOutput) -> bytes:
        if tensor.datatype == raw_datatype:
            raw = tensor.data.to_raw(tensor.datatype)
            return b"".join((key, length(len(raw)), raw)) if raw else b""
        values = contents_of(tensor.data, tensor.datatype)
        return message(**{name: values}).SerializeToString()

    return packed


def _value_writer(field: Field, message: type[Message]) -> Write:
    name, key = field.name, _key(field.number, BLOCK)
    if field.type not in ("string", "bytes"):
        return lambda value: message(**{name: value}).SerializeToString()

    def write(value: Any) -> bytes:  # as protobuf, in a third of the time, because a token is a text
        element = value.encode() if type(value) is str else to_bytes(value)
        return b"%b%b%b" % (key, length(len(element)), element) if element or field.presence else b""

    return write


def _array(key: bytes, tensor: ResponseOutput) -> bytes:
    """A TensorProto; its data is copied once."""
    raw = tensor.data.to_raw(tensor.datatype)
    sizes = b"".join(map(length, tensor.shape))
    dtype = DTYPES[tensor.datatype].encode()
    head = b"%b%b%b" % (DTYPE, length(len(dtype)), dtype)
    if sizes:
        head = b"%b%b%b%b" % (SHAPE, length(len(sizes)), sizes, head)
    if raw:
        head = b"%b%b%b" % (head, DATA, length(len(raw)))
    return b"".join((key, length(len(head) + len(raw)), head, raw))


def _key(number: int, kind: int) -> bytes:
    return length(number << 3 | kind)
