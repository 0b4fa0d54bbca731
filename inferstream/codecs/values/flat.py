"""Conversion of JSON arguments to inputs, and of outputs to JSON, according to a model's declared tensors."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...errors import CodecError, InvalidOutput, InvalidRequest
from ...signature import Signature
from ...types import InferenceResponse, MetadataTensor, RequestInput, ResponseOutput
from ...types.forms import OutputForm
from ...types.json_encoding import encode
from ...types.json_numbers import NumbersText
from .arrays import Array
from .base import (
    NULLABLE,
    OPTIONAL,
    STREAM,
    Value,
    describe_fault,
    fact,
    get_single,
    list_accepted_inputs,
    reason,
)
from .declared import value_of_tensor
from .frames import FrameValue
from .lists import ListOf
from .objects import Json
from .scalars import Number, parse_json
from .tensor_objects import decode_array_object


class FlatArguments:
    """Parses objects whose keys are the inputs of one model. Created when the model loads.

    An array is sent as nested lists of numbers, or as an object with base64 data (`tensor_objects`). Unless
    `strict` is set, an input that is declared as a list also accepts a single value.
    """

    def __init__(
        self, inputs: Sequence[MetadataTensor], strict: bool, most_numbers: int | None = None
    ) -> None:
        """`most_numbers` limits the length of a number list that is not the data of an array."""
        self._most = most_numbers
        self._values: dict[str, Value] = {tensor.name: value_of_tensor(tensor) for tensor in inputs}
        self._optional = {tensor.name for tensor in inputs if fact(tensor, OPTIONAL) or fact(tensor, STREAM)}
        self._nullable = {tensor.name for tensor in inputs if fact(tensor, NULLABLE)}
        self.required = [name for name in self._values if name not in self._optional]
        """The names of the inputs that a request must have."""
        self._strict = strict
        self.takes_json = any(isinstance(value, Json) for value in self._values.values())
        """Whether an argument is JSON, whose content the datatype does not check."""

    @property
    def names(self) -> list[str]:
        """The names of the inputs, in the order of declaration."""
        return [*self._values]

    def read(self, document: Mapping[str, Any] | Sequence[Any]) -> list[RequestInput]:
        """Convert an object, or a list of values in the order of declaration, to inputs.

        null means that an optional input is absent, or is the value of a nullable input. Raises
        InvalidRequest naming an argument that is missing, unknown or invalid.
        """
        tensors = []
        given = set()
        for name, value in self._by_name(document):
            kind = self._values.get(name)
            if kind is None:
                raise InvalidRequest(f'"{name}" is no argument of the model; {self.list_inputs()}')
            given.add(name)
            if value is None:
                if name in self._nullable:
                    tensors.append(kind.null(name))
                    continue
                if name in self._optional:
                    continue
                if not isinstance(kind, Json):
                    raise InvalidRequest(f'argument "{name}" must not be null')
            tensors.append(self._tensor(name, kind, value))
        for name in self.required:
            if name not in given:
                raise InvalidRequest(f'argument "{name}" is missing; {self.list_inputs()}')
        return tensors

    def _by_name(self, document: Mapping[str, Any] | Sequence[Any]) -> Iterable[tuple[str, Any]]:
        if isinstance(document, Mapping):
            return document.items()
        if len(document) > len(self._values):
            raise InvalidRequest(f"{len(document)} arguments are too many; {self.list_inputs()}")
        return zip(self._values, document, strict=False)

    def _tensor(self, name: str, kind: Value, value: Any) -> RequestInput:
        try:
            if isinstance(kind, Array) and (array := decode_array_object(value)) is not None:
                return kind.encode_input(name, array)
            if type(value) is NumbersText:
                if isinstance(kind, Array):
                    array = value.array(kind.datatype).reshape(value.shape)
                    return kind.encode_input(name, array)
                if self._most is not None and prod(value.shape) > self._most:
                    raise ValueError(f"a list of more than {self._most} numbers (setting max_json_values)")
                value = value.values()
            if not self._strict and isinstance(kind, ListOf) and not isinstance(value, list):
                value = [value]
            return kind.input_from_flat(name, value)
        except (TypeError, ValueError, CodecError) as error:
            raise InvalidRequest(describe_fault(name, error)) from None

    def list_inputs(self) -> str:
        """Return the end of an error message that lists all inputs."""
        return list_accepted_inputs((name, name not in self._optional) for name in self._values)


class FlatResults:
    """Converts the outputs of a response to one JSON value.

    It is the value of a single output, an object of several outputs, or null. Created when the model loads.
    Arrays stay NumPy arrays, which the JSON encoder supports. Raises InvalidOutput.
    """

    def __init__(self, outputs: Sequence[MetadataTensor]) -> None:
        self._values: dict[str, Value] = {tensor.name: value_of_tensor(tensor) for tensor in outputs}

    def document(self, response: InferenceResponse) -> dict[str, Any]:
        """Return the outputs of a response by name."""
        return {tensor.name: self._json(tensor) for tensor in response.outputs}

    def value(self, form: OutputForm, response: InferenceResponse) -> Any:
        kind = self._values.get(form.name)
        return self.tensors(response) if kind is None else kind.to_json(response.value)

    def tensors(self, response: InferenceResponse) -> Any:
        document = self.document(response)
        if len(document) == 1 and len(self._values) < 2:
            return next(iter(document.values()))
        return document or None

    def _json(self, tensor: ResponseOutput) -> Any:
        try:
            kind = self._values.get(tensor.name) or value_of_tensor(_undeclared_metadata(tensor))
            if isinstance(kind, Array):
                array = tensor.data.to_numpy(tensor.datatype, tensor.shape)
                return np.ascontiguousarray(array) if array.ndim else array.item()
            if isinstance(kind, FrameValue):
                return _table(get_single(tensor))
            if isinstance(kind, ListOf) and isinstance(kind.of, FrameValue):
                return [*map(_table, tensor.data.flat())]
            if isinstance(kind, ListOf) and isinstance(kind.of, Number):
                return tensor.data.flat()
            return kind.to_json(kind.read(tensor))
        except (TypeError, ValueError, CodecError) as error:
            raise InvalidOutput(f'Output "{tensor.name}" cannot be written: {reason(error)}.') from error


def _table(element: Any) -> orjson.Fragment:
    """Return the JSON of a data frame without decoding it with pandas.

    In a column with a missing value, pandas would turn integers into floats.
    """
    return orjson.Fragment(encode(parse_json(element)))


def _undeclared_metadata(tensor: ResponseOutput) -> MetadataTensor:
    """Return metadata for a tensor that is not declared."""
    shape = tensor.shape if tensor.shape == [1] or len(tensor.shape) != 1 else [-1]
    return MetadataTensor(
        name=tensor.name, datatype=tensor.datatype, shape=shape, parameters=tensor.parameters
    )


class FlatInterface(NamedTuple):
    """Converts flat objects to requests for one model, and its responses to flat objects."""

    arguments: FlatArguments
    results: FlatResults
    strict: bool
    """Whether the model accepts exactly these inputs, so that other keys are errors instead of parameters."""


def flat_interface(signature: Signature, most_numbers: int | None = None) -> FlatInterface | None:
    """Return the interface of a model.

    Returns None if its inputs are unknown. `most_numbers` is as in `FlatArguments`.
    """
    if signature.inputs is None:
        return None
    strict = signature.function
    return FlatInterface(
        FlatArguments(signature.inputs, strict, most_numbers), FlatResults(signature.outputs or ()), strict
    )
