"""Unchecked tensor values, for models written for MLServer."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy.typing as npt

from .conversion import NESTING, cast_loosely, check_depth, split_bytes
from .datatypes import DTYPES, WIRE_SIZES
from .tensor import TensorData


class UncheckedData(TensorData):
    """Values as sent: nested or flat, of any types and any number. `to_numpy` converts them as NumPy does."""

    __slots__ = ()

    checked = False

    @classmethod
    def take(cls, data: TensorData) -> None:
        """Make `data` unchecked in place."""
        data.__class__ = cls

    def to_numpy(self, datatype: str, shape: Sequence[int] | None = None) -> npt.NDArray[Any]:
        array, dtype = self._array, DTYPES[datatype]
        if array is None:
            array = cast_loosely(self._root, datatype) if self._raw is None else self._from_wire()
        if array.dtype != dtype:
            array = cast_loosely(array, datatype)
        self._array = array
        return array if shape is None else array.reshape(shape)

    def check(self, datatype: str, shape: Sequence[int]) -> None:
        """Raise ValueError for raw bytes that are not whole elements, and for values that are nested too deep."""
        raw = self._raw
        if raw is None:
            values = self._root
            if type(values) is not list or not NESTING.isdisjoint(map(type, values)):
                check_depth(values)
            return
        if datatype == "BYTES":
            self._root = split_bytes(raw)
        elif raw.nbytes % WIRE_SIZES[datatype]:
            raise ValueError(f"{raw.nbytes} bytes are no whole number of {datatype} elements")
        elif datatype == "BOOL" and raw.nbytes and max(raw) > 1:
            raise ValueError("BOOL needs bytes that are 0 or 1")

    @staticmethod
    def sound(data: TensorData, datatype: str, shape: Sequence[int]) -> bool:
        """Whether the values fit a checked tensor."""
        exact = TensorData(data)
        try:
            exact.check(datatype, shape)
        except (ValueError, TypeError):
            return False
        data._array = exact.array
        return True

    def split(self, datatype: str, counts: Sequence[int]) -> list[TensorData]:
        values = self._root
        if values is None or self._raw is not None:
            return super().split(datatype, counts)
        width = self._row_width(sum(counts))
        if width and not any(count % width for count in counts):
            counts = [count // width for count in counts]  # lists of lists are split between their rows
        else:
            values = self.flat()
        ends = list(accumulate(counts))
        return [UncheckedData(values[end - count : end]) for count, end in zip(counts, ends, strict=True)]

    def _row_width(self, elements: int) -> int:
        """Number of elements of each list in a list of lists; 0 for other values."""
        values = self._root
        nested = type(values) is list and values and type(values[0]) is list
        return 0 if not nested or elements % len(values) else elements // len(values)
