"""The inputs of a request from JSON values by name, and the JSON value of a response."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import CodecError, InvalidOutput, InvalidRequest
from ...signature import Signature
from ...types import InferenceResponse, MetadataTensor, RequestInput, ResponseOutput
from ...types.value_response import ValueResponse
from .arrays import Array
from .base import OPTIONAL, STREAM, Value, reason
from .declared import value_of_tensor
from .lists import ListOf
from .scalars import Number
from .tensor_objects import array_of_object


class NamedValues:
    """Reads and writes the values of one model, strictly by its signature. Made once for each loaded model."""

    def __init__(self, signature: Signature) -> None:
        inputs = signature.inputs or ()
        self.known = signature.inputs is not None
        """Whether the model's inputs are known; without them no request can be read."""
        self._inputs = {tensor.name: value_of_tensor(tensor) for tensor in inputs}
        self._optional = {tensor.name for tensor in inputs if _may_be_absent(tensor)}
        self._required = [name for name in self._inputs if name not in self._optional]
        self._outputs = {tensor.name: value_of_tensor(tensor) for tensor in signature.outputs or ()}
        self._function = signature.function

    def read(self, arguments: Mapping[str, Any] | Sequence[Any]) -> list[RequestInput]:
        """The inputs of a request, from values by name or in the order of the inputs.

        Null stands for an absent optional input. Raises InvalidRequest, which names the argument.
        """
        tensors = []
        for name, value in self._named(arguments):
            kind = self._inputs.get(name)
            if kind is None:
                raise InvalidRequest(f'"{name}" is no argument of the model; {self._takes()}')
            if value is None and name in self._optional:
                continue
            tensors.append(self._tensor(name, kind, value))
        if len(tensors) < len(self._inputs):
            given = {tensor.name for tensor in tensors}
            for name in self._required:
                if name not in given:
                    raise InvalidRequest(f'argument "{name}" is missing; {self._takes()}')
        return tensors

    def result(self, response: InferenceResponse) -> Any:
        """The JSON value of a response: that of its only output, an object of several, null for none.

        Arrays stay NumPy arrays, for the JSON writer. Raises InvalidOutput.
        """
        if type(response) is ValueResponse:
            kind = self._outputs.get(response.form.name)
            return response.value if kind is None else kind.to_json(response.value)
        found = {tensor.name: self._value(tensor) for tensor in response.outputs}
        if len(found) == 1 and len(self._outputs) < 2:
            return next(iter(found.values()))
        return found or None

    def _named(self, arguments: Mapping[str, Any] | Sequence[Any]) -> Any:
        if isinstance(arguments, Mapping):
            return arguments.items()
        if len(arguments) > len(self._inputs):
            raise InvalidRequest(f"{len(arguments)} arguments are too many; {self._takes()}")
        return zip(self._inputs, arguments, strict=False)

    def _tensor(self, name: str, kind: Value, value: Any) -> RequestInput:
        try:
            if isinstance(kind, Array) and (array := array_of_object(value)) is not None:
                return kind.encode_input(name, array)
            if isinstance(kind, ListOf) and not self._function and not isinstance(value, list):
                value = [value]  # a class that declares shape [-1] takes one value too
            return kind.encode_input(name, kind.from_json(value))
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f'argument "{name}" {reason(error)}') from None
        except CodecError as error:
            raise InvalidRequest(error.message.replace("input", "argument", 1)) from None

    def _value(self, tensor: ResponseOutput) -> Any:
        kind = self._outputs.get(tensor.name)
        try:
            if kind is None:
                kind = value_of_tensor(_described(tensor))
            if isinstance(kind, Array):
                array = tensor.data.to_numpy(tensor.datatype, tensor.shape)
                return np.ascontiguousarray(array) if array.ndim else array.item()
            if isinstance(kind, ListOf) and isinstance(kind.of, Number):
                held = None if self._function else tensor.data.array
                return tensor.data.flat() if held is None else np.ascontiguousarray(held).reshape(-1)
            return kind.to_json(kind.decode_output(tensor))
        except (TypeError, ValueError) as error:
            raise InvalidOutput(f'Output "{tensor.name}" {reason(error)}.') from error
        except CodecError as error:
            raise InvalidOutput(f"{error.message}.") from error

    def _takes(self) -> str:
        names = ", ".join(f"{name} (optional)" if name in self._optional else name for name in self._inputs)
        return f"it takes {names}" if names else "it takes no arguments"


def _may_be_absent(tensor: MetadataTensor) -> bool:
    parameters = tensor.parameters
    return parameters is not None and bool(parameters.get(OPTIONAL) or parameters.get(STREAM))


def _described(tensor: ResponseOutput) -> MetadataTensor:
    """A tensor of which nothing is declared, as metadata would describe it."""
    shape = tensor.shape if tensor.shape == [1] or len(tensor.shape) > 1 else [-1]
    return MetadataTensor(
        name=tensor.name, datatype=tensor.datatype, shape=shape, parameters=tensor.parameters
    )
