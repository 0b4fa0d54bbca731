"""JSON values of the arguments of a model as inputs, and outputs as JSON values, by what the model declares."""

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
from .base import NULLABLE, OPTIONAL, STREAM, Value, fact, fault_of, reason, single, taken
from .declared import value_of_tensor
from .frames import FrameValue
from .lists import ListOf
from .objects import Json
from .scalars import Number, loaded
from .tensor_objects import array_of_object


class FlatArguments:
    """Reads objects whose keys are the inputs of one model. Made when the model loads.

    An array is nested lists of numbers, or an object with base64 (`tensor_objects`). Unless `strict`, an input that is
    declared as a list takes one value too.
    """

    def __init__(
        self, inputs: Sequence[MetadataTensor], strict: bool, most_numbers: int | None = None
    ) -> None:
        """`most_numbers` may be in a list that is not the data of an array."""
        self._most = most_numbers
        self._values: dict[str, Value] = {tensor.name: value_of_tensor(tensor) for tensor in inputs}
        self._optional = {tensor.name for tensor in inputs if fact(tensor, OPTIONAL) or fact(tensor, STREAM)}
        self._nullable = {tensor.name for tensor in inputs if fact(tensor, NULLABLE)}
        self.required = [name for name in self._values if name not in self._optional]
        """The inputs that a request must have."""
        self._strict = strict
        self.takes_json = any(isinstance(value, Json) for value in self._values.values())
        """Whether an argument holds values of any type, which no datatype would check."""

    @property
    def names(self) -> list[str]:
        """The names of the inputs, in their order."""
        return [*self._values]

    def read(self, document: Mapping[str, Any] | Sequence[Any]) -> list[RequestInput]:
        """The inputs of an object, or of a list in the order of the inputs. null stands for an absent optional one,
        and is the value of one that may be null.

        Raises InvalidRequest, which names the argument, for a missing, unknown or wrong one.
        """
        tensors = []
        given = set()
        for name, value in self._named(document):
            kind = self._values.get(name)
            if kind is None:
                raise InvalidRequest(f'"{name}" is no argument of the model; {self.known()}')
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
                raise InvalidRequest(f'argument "{name}" is missing; {self.known()}')
        return tensors

    def _named(self, document: Mapping[str, Any] | Sequence[Any]) -> Iterable[tuple[str, Any]]:
        if isinstance(document, Mapping):
            return document.items()
        if len(document) > len(self._values):
            raise InvalidRequest(f"{len(document)} arguments are too many; {self.known()}")
        return zip(self._values, document, strict=False)

    def _tensor(self, name: str, kind: Value, value: Any) -> RequestInput:
        try:
            if isinstance(kind, Array) and (array := array_of_object(value)) is not None:
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
            raise InvalidRequest(fault_of(name, error)) from None

    def known(self) -> str:
        """The names of all inputs, as the end of a refusal."""
        return taken((name, name not in self._optional) for name in self._values)


class FlatResults:
    """Makes one JSON value of the outputs of a response: that of the only output, an object of several, null of none.

    Made when the model loads. Arrays stay NumPy arrays, which the JSON writer takes. Raises InvalidOutput.
    """

    def __init__(self, outputs: Sequence[MetadataTensor]) -> None:
        self._values: dict[str, Value] = {tensor.name: value_of_tensor(tensor) for tensor in outputs}

    def document(self, response: InferenceResponse) -> dict[str, Any]:
        """The outputs of a response by name."""
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
            kind = self._values.get(tensor.name) or value_of_tensor(_described(tensor))
            if isinstance(kind, Array):
                array = tensor.data.to_numpy(tensor.datatype, tensor.shape)
                return np.ascontiguousarray(array) if array.ndim else array.item()
            if isinstance(kind, FrameValue):
                return _table(single(tensor))
            if isinstance(kind, ListOf) and isinstance(kind.of, FrameValue):
                return [*map(_table, tensor.data.flat())]
            if isinstance(kind, ListOf) and isinstance(kind.of, Number):
                return tensor.data.flat()
            return kind.to_json(kind.read(tensor))
        except (TypeError, ValueError, CodecError) as error:
            raise InvalidOutput(f'Output "{tensor.name}" cannot be written: {reason(error)}.') from error


def _table(element: Any) -> orjson.Fragment:
    """A data frame in an element, as it is: pandas would make floats of integers beside a missing one."""
    return orjson.Fragment(encode(loaded(element)))


def _described(tensor: ResponseOutput) -> MetadataTensor:
    """A tensor of which nothing is declared, as metadata would describe it."""
    shape = tensor.shape if tensor.shape == [1] or len(tensor.shape) != 1 else [-1]
    return MetadataTensor(
        name=tensor.name, datatype=tensor.datatype, shape=shape, parameters=tensor.parameters
    )


class FlatInterface(NamedTuple):
    """How flat objects become requests to one model, and its responses flat objects."""

    arguments: FlatArguments
    results: FlatResults
    strict: bool
    """Whether the model takes exactly these inputs, so that other keys are errors and no parameters."""


def flat_interface(signature: Signature, most_numbers: int | None = None) -> FlatInterface | None:
    """The interface of a model; None if its inputs are not known. `most_numbers` is that of `FlatArguments`."""
    if signature.inputs is None:
        return None
    strict = signature.function
    return FlatInterface(
        FlatArguments(signature.inputs, strict, most_numbers), FlatResults(signature.outputs or ()), strict
    )
