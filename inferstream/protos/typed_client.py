"""Typed messages on the client side: writes requests and parses responses.

See `typed_requests.py` for the server.
"""

from typing import Any

from google.protobuf.message import DecodeError, Message

from ..errors import CallFailed
from ..types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput, TensorData
from .grpc import typed_contents
from .typed import DATATYPES, DTYPES, Field, Method
from .typed_files import message_classes


class TypedMessages:
    """Writes the requests and parses the responses of one RPC."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self._request, self._response = message_classes(method)
        self._fields = {field.tensor.name: field for field in method.request}

    def write(self, request: InferenceRequest) -> bytes:
        """Return the bytes of a request.

        Raises ValueError naming the argument if its value does not fit its field.
        """
        message = self._request()
        for tensor in request.inputs:
            try:
                _set(message, self._fields[tensor.name], tensor)
            except (TypeError, ValueError) as error:
                raise ValueError(f'argument "{tensor.name}": {error}') from None
        return message.SerializeToString()

    def read(self, data: bytes) -> InferenceResponse:
        """Parse a response. Raises CallFailed."""
        try:
            message = self._response.FromString(data)
        except DecodeError:
            raise CallFailed(f"The server's answer is not a {self.method.messages[1]}") from None
        outputs = [tensor for field in self.method.response if (tensor := _output(field, message))]
        return InferenceResponse.of(self.method.model, outputs)


def _set(message: Message, field: Field, tensor: RequestInput) -> None:
    if field.is_tensor:
        array = getattr(message, field.name)
        array.SetInParent()
        array.shape.extend(tensor.shape)
        array.dtype = DTYPES[tensor.datatype]
        array.data = bytes(tensor.data.to_raw(tensor.datatype))
        return
    values = typed_contents(tensor.data, tensor.datatype)
    if field.repeated:
        getattr(message, field.name).extend(values)
    else:
        setattr(message, field.name, values[0])


def _output(field: Field, message: Message) -> ResponseOutput | None:
    """Return the output in a field, or None if its value is absent."""
    if field.presence and not message.HasField(field.name):
        return None
    value: Any = getattr(message, field.name)
    if field.is_tensor:
        datatype = DATATYPES.get(value.dtype)
        if datatype is None:
            raise CallFailed(f"The server's answer has an array of an unknown dtype: {value.dtype[:40]}")
        return _tensor(field, value.shape[:], datatype, TensorData.from_raw(value.data, datatype))
    values = value[:] if field.repeated else [value]
    return _tensor(field, [len(values)], field.tensor.datatype, TensorData(values))


def _tensor(field: Field, shape: list[int], datatype: str, data: TensorData) -> ResponseOutput:
    return ResponseOutput.of(field.tensor.name, shape, datatype, data, field.tensor.parameters)
