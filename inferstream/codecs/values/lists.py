"""Lists of single values, which are encoded as one-dimensional tensors."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ...types import RequestInput, ResponseOutput
from ...types.conversion import plain_array
from .base import SingleValue, Value, convert_each, format_brief


class ListOf(Value):
    """Encodes `list[T]` as a tensor of shape [-1]. Decoding accepts any shape and returns a flat list."""

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
        elements = self.of.elements(_to_list(value))
        return [len(elements)], elements

    def from_json(self, value: Any) -> list[Any]:
        return convert_each(self.of.from_json, _json_list(value))

    def from_flat(self, value: Any) -> tuple[list[int], Any]:
        values = _json_list(value)
        elements = self.of.convert_at_once(values)
        if elements is None:
            elements = convert_each(lambda element: self.of.from_flat(element)[1][0], values)
        return [len(elements)], elements

    def to_json(self, value: Any) -> list[Any]:
        return [self.of.to_json(element) for element in _to_list(value)]


def _json_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"takes a list, got {format_brief(value)}")
    return value


def _to_list(value: Any) -> Any:
    """Return the items of any collection. Masked numbers become NaN, and times stay NumPy times."""
    if isinstance(value, np.ndarray):
        return [*value] if value.dtype.kind == "M" else plain_array(value).tolist()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return value
    if not isinstance(value, Collection) or isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        raise TypeError(f"takes a list, got {format_brief(value)}")
    return [*value]
