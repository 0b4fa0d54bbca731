"""Lists of single values, as one tensor of one dimension."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ...types import RequestInput, ResponseOutput
from ...types.conversion import plain_array
from .base import SingleValue, Value, brief, each


class ListOf(Value):
    """`list[T]` as a tensor of shape [-1]. Reading accepts any shape and gives a flat list."""

    def __init__(self, of: SingleValue) -> None:
        self.of = of
        self.datatype = of.datatype
        self.content = of.content
        self.reads_apart = of.reads_apart or of.datatype == "BYTES"

    @property
    def shape(self) -> list[int]:
        return [-1]

    def facts(self) -> dict[str, Any]:
        return self.of.facts()

    def read(self, tensor: RequestInput | ResponseOutput) -> list[Any]:
        return self.of.read_all(tensor)

    def write(self, value: Any) -> tuple[list[int], Any]:
        elements = self.of.elements(_listed(value))
        return [len(elements)], elements

    def from_json(self, value: Any) -> list[Any]:
        return each(self.of.from_json, _json_list(value))

    def from_flat(self, value: Any) -> tuple[list[int], Any]:
        values = _json_list(value)
        elements = self.of.plain(values)
        if elements is None:
            elements = each(lambda element: self.of.from_flat(element)[1][0], values)
        return [len(elements)], elements

    def to_json(self, value: Any) -> list[Any]:
        return [self.of.to_json(element) for element in _listed(value)]


def _json_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"takes a list, got {brief(value)}")
    return value


def _listed(value: Any) -> Any:
    """The items of any collection. Masked numbers are NaN, and times stay times of NumPy."""
    if isinstance(value, np.ndarray):
        return [*value] if value.dtype.kind == "M" else plain_array(value).tolist()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return value
    if not isinstance(value, Collection) or isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        raise TypeError(f"takes a list, got {brief(value)}")
    return [*value]
