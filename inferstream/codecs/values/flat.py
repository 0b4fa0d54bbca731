"""Flat JSON objects, `{"argument": value}`, as inputs, and outputs as such objects, by what a model declares."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import CodecError, InvalidOutput, InvalidRequest
from ...signature import Signature
from ...types import InferenceResponse, MetadataTensor, RequestInput
from .base import OPTIONAL, Value, reason
from .declared import value_of_tensor
from .objects import Json


class FlatArguments:
    """Reads objects whose keys are the inputs of one model. Made when the model loads."""

    def __init__(self, inputs: Sequence[MetadataTensor]) -> None:
        self._values: dict[str, Value] = {tensor.name: value_of_tensor(tensor) for tensor in inputs}
        self._optional = {tensor.name for tensor in inputs if _is_optional(tensor)}
        self._required = [name for name in self._values if name not in self._optional]

    @property
    def names(self) -> list[str]:
        """The names of the inputs, in their order."""
        return [*self._values]

    def read(self, document: Mapping[str, Any]) -> list[RequestInput]:
        """The inputs of an object. null stands for an absent optional one.

        Raises InvalidRequest, which names the argument, for a missing, unknown or wrong one.
        """
        tensors = []
        for name, value in document.items():
            kind = self._values.get(name)
            if kind is None:
                raise InvalidRequest(f'"{name}" is no argument of the model; {self._known()}')
            if value is None:
                if name in self._optional:
                    continue
                if not isinstance(kind, Json):
                    raise InvalidRequest(f'argument "{name}" must not be null')
            try:
                tensors.append(kind.input_from_flat(name, value))
            except (TypeError, ValueError, CodecError) as error:
                raise InvalidRequest(f'argument "{name}" {reason(error)}') from None
        for name in self._required:
            if name not in document:
                raise InvalidRequest(f'argument "{name}" is missing; {self._known()}')
        return tensors

    def _known(self) -> str:
        names = ", ".join(f"{name} (optional)" if name in self._optional else name for name in self._values)
        return f"it takes {names}" if names else "it takes no arguments"


class FlatResults:
    """Makes JSON values of the outputs of one model. Made when the model loads."""

    def __init__(self, outputs: Sequence[MetadataTensor]) -> None:
        self._values: dict[str, Value] = {tensor.name: value_of_tensor(tensor) for tensor in outputs}

    def document(self, response: InferenceResponse) -> dict[str, Any]:
        """The outputs of a response by name, for the JSON writer. Raises InvalidOutput."""
        document: dict[str, Any] = {}
        for tensor in response.outputs:
            kind = self._values.get(tensor.name)
            try:
                value = tensor.data.flat() if kind is None else kind.to_json(kind.read(tensor))
            except (TypeError, ValueError, CodecError) as error:
                raise InvalidOutput(f'Output "{tensor.name}" cannot be written: {reason(error)}.') from error
            document[tensor.name] = value
        return document


def _is_optional(tensor: MetadataTensor) -> bool:
    return tensor.parameters is not None and bool(tensor.parameters.get(OPTIONAL))


class FlatInterface:
    """How flat objects become requests to one model, and its responses flat objects."""

    __slots__ = ("arguments", "results", "strict")

    def __init__(
        self, inputs: Sequence[MetadataTensor], outputs: Sequence[MetadataTensor], strict: bool
    ) -> None:
        self.arguments = FlatArguments(inputs)
        self.results = FlatResults(outputs)
        self.strict = strict
        """Whether the model takes exactly these inputs, so that other keys are errors and no parameters."""


def flat_interface(signature: Signature) -> FlatInterface | None:
    """The interface of a model; None if its inputs are not known."""
    if signature.inputs is None:
        return None
    return FlatInterface(signature.inputs, signature.outputs or (), signature.function)
