"""Parses the requests of typed RPCs. Errors name the argument at fault."""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ..errors import InvalidRequest
from ..types import InferenceRequest, RequestInput, TensorData
from ..types.forms import InputsForm
from .grpc_requests import LARGE
from .typed import DATATYPES, DTYPES, TENSOR, Field, Method
from .typed_wire import Large, read_fields, take_large

Read = Callable[[Message], RequestInput | None]
"""A function that reads the input in a field of a message. Returns None if the field is absent."""


class RequestReader:
    """Parses the requests of one RPC into requests to its model."""

    def __init__(self, method: Method, message: type[Message]) -> None:
        self._method = method
        self._message = message
        self._fields = {field.number: field for field in method.request}
        self._arrays = {field.number for field in method.request if field.is_tensor}
        self._reads = [(field.number, _build_reader(field)) for field in method.request]
        self._of_values = not any(field.repeated or field.is_tensor for field in method.request)

    def read(self, data: bytes, form: InputsForm | None = None) -> InferenceRequest:
        """Parse the first request of a call. `form` describes single-value inputs. Raises InvalidRequest."""
        large: dict[int, Large] = {}
        if self._arrays and len(data) >= LARGE:
            data, large = take_large(data, self._arrays)
        message = self._parse(data)
        if form is not None and self._of_values and form.fits(values := self._values(message)):
            return InferenceRequest.of_values(form, values)
        inputs = []
        for number, read in self._reads:
            if number in large:
                inputs.append(self._read_large_array(self._fields[number], *large[number]))
            elif (tensor := read(message)) is not None:
                inputs.append(tensor)
        return InferenceRequest.of(inputs)

    def read_later(self, data: bytes) -> InferenceRequest:
        """Parse a later request of a stream, which may contain only the next value. Raises InvalidRequest."""
        stream = self._method.stream
        assert stream is not None
        message = self._parse(data)
        for descriptor, _ in message.ListFields():
            if descriptor.number != stream.number:
                name = self._fields[descriptor.number].tensor.name
                raise InvalidRequest(
                    f'argument "{name}" is in a later request, which takes only "{stream.tensor.name}"'
                )
        if stream.repeated:  # in a stream, an empty list is a value
            return _to_request(_list(stream, message))
        tensor = _build_reader(stream)(message)
        return InferenceRequest.of([]) if tensor is None else _to_request(tensor)

    def _values(self, message: Message) -> dict[str, Any]:
        """Return the single values of a message, by argument name."""
        values: dict[str, Any] = {}
        for field in self._method.request:
            if not field.presence or message.HasField(field.name):
                values[field.tensor.name] = getattr(message, field.name)
            else:
                _check_optional(field)
        return values

    def _parse(self, data: bytes) -> Message:
        try:
            message = self._message.FromString(data)
        except DecodeError:
            raise InvalidRequest(self._describe_fault(data)) from None
        # For protobuf, a field with a wrong wire type is an unknown field.
        if len(unknown := UnknownFieldSet(message)):
            raise InvalidRequest(self._describe_unknown_field(unknown[0].field_number))
        return message

    def _read_large_array(self, field: Field, rest: bytes, view: memoryview) -> RequestInput:
        """Return an array whose data is a view of the received bytes."""
        try:
            tensor = type(getattr(self._message(), field.name)).FromString(rest)
        except DecodeError:
            raise InvalidRequest(f"{_format_field(field)} is no {TENSOR}") from None
        return _array(field, tensor, view)

    def _describe_unknown_field(self, number: int) -> str:
        field = self._fields.get(number)
        if field is not None:
            return f"{_format_field(field)} is no {field.declared}"
        known = ", ".join(f"{each.tensor.name} = {each.number}" for each in self._method.request)
        return f"field {number} is no argument of the model; it takes {known or 'no arguments'}"

    def _describe_fault(self, data: bytes) -> str:
        """Return a description of the error in bytes that protobuf cannot parse."""
        for number, value in read_fields(data):
            field = self._fields.get(number)
            if field is None:
                continue
            if value is None:
                return f"{_format_field(field)} is cut off"
            if field.type == "string" and not _is_text(value):
                return f"{_format_field(field)} is not UTF-8 text"
            if field.is_tensor and any(inner is None for _, inner in read_fields(value)):
                return f"{_format_field(field)} is no {TENSOR}"
        return f"The message is not a {self._method.messages[0]}."


def _format_field(field: Field) -> str:
    return f'argument "{field.tensor.name}" in field {field.number}'


def _is_text(value: memoryview) -> bool:
    try:
        str(value, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _to_request(tensor: RequestInput) -> InferenceRequest:
    return InferenceRequest.of([tensor])


def _build_reader(field: Field) -> Read:
    name = field.name
    if field.is_tensor:

        def tensor(message: Message) -> RequestInput | None:
            if message.HasField(name):
                array: Any = getattr(message, name)
                return _array(field, array, array.data)
            return _check_optional(field)

        return tensor
    if field.repeated:

        def read_list(message: Message) -> RequestInput | None:
            values = _list(field, message)
            return values if field.required or values.shape != [0] else None

        return read_list
    if field.presence:

        def present(message: Message) -> RequestInput | None:
            if message.HasField(name):
                return _input(field, [1], TensorData([getattr(message, name)]))
            return _check_optional(field)

        return present
    return lambda message: _input(field, [1], TensorData([getattr(message, name)]))


def _check_optional(field: Field) -> RequestInput | None:
    """Return None for an optional field. Raises InvalidRequest for a required one."""
    if field.required:
        raise InvalidRequest(f'argument "{field.tensor.name}" is missing: field {field.number}')
    return None


def _list(field: Field, message: Message) -> RequestInput:
    values = getattr(message, field.name)[:]
    return _input(field, [len(values)], TensorData(values))


def _array(field: Field, tensor: Any, data: bytes | memoryview) -> RequestInput:
    """Return the input in a TensorProto. Raises InvalidRequest unless its data matches its shape."""
    if len(unknown := UnknownFieldSet(tensor)):
        raise InvalidRequest(
            f"{_format_field(field)} has a field {unknown[0].field_number} that {TENSOR} has not"
        )
    datatype = DATATYPES.get(tensor.dtype)
    if datatype is None:
        raise InvalidRequest(
            f'{_format_field(field)} has dtype "{tensor.dtype[:40]}"; the model takes "{DTYPES[field.tensor.datatype]}"'
        )
    shape, values = tensor.shape[:], TensorData.from_raw(data, datatype)
    try:
        values.check(datatype, shape)
    except ValueError as error:
        raise InvalidRequest(f"{_format_field(field)}: {error}") from None
    return _input(field, shape, values, datatype)


def _input(field: Field, shape: list[int], data: TensorData, datatype: str | None = None) -> RequestInput:
    return RequestInput.of(field.tensor.name, shape, datatype or field.tensor.datatype, data)
