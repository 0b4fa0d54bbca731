"""Lists of single values, as one tensor of one dimension."""

from typing import Any

from ...types import RequestInput, ResponseOutput, TensorData
from .base import Value, brief, reason


class ListOf(Value):
    """`list[T]` as a tensor of shape [-1]. Reading accepts any shape and gives a flat list."""

    def __init__(self, of: Value) -> None:
        self.of = of
        self.datatype = of.datatype
        self.content = of.content

    @property
    def shape(self) -> list[int]:
        return [-1]

    def facts(self) -> dict[str, Any]:
        return self.of.facts()

    def read(self, tensor: RequestInput | ResponseOutput) -> list[Any]:
        kind = type(tensor)
        element = kind.trusted({**tensor.__dict__, "shape": [1]})
        values = []
        for index, value in enumerate(tensor.data.flat()):
            element.__dict__["data"] = TensorData([value])
            try:
                values.append(self.of.read(element))
            except (TypeError, ValueError) as error:
                raise ValueError(f"element {index} {reason(error)}") from None
        return values

    def write(self, value: Any) -> tuple[list[int], Any]:
        elements = [self.of.write(element)[1][0] for element in self._listed(value)]
        return [len(elements)], elements

    def from_json(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise TypeError(f"takes a list, got {brief(value)}")
        found = []
        for index, element in enumerate(value):
            try:
                found.append(self.of.from_json(element))
            except (TypeError, ValueError) as error:
                raise ValueError(f"element {index} {reason(error)}") from None
        return found

    def to_json(self, value: Any) -> list[Any]:
        return [self.of.to_json(element) for element in self._listed(value)]

    def _listed(self, value: Any) -> Any:
        if hasattr(value, "tolist"):
            value = value.tolist()
        if not isinstance(value, list | tuple):
            raise TypeError(f"takes a list, got {brief(value)}")
        return value
