"""Shapes whose first dimension counts rows."""

from math import prod


class Shape:
    """A shape of its own, which may change."""

    batch_axis = 0

    def __init__(self, shape: list[int]) -> None:
        self._shape = shape.copy()

    def to_list(self) -> list[int]:
        """The sizes."""
        return self._shape.copy()

    def copy(self) -> "Shape":
        """Another one of these sizes."""
        return Shape(self._shape)

    @property
    def batch_size(self) -> int:
        """The number of rows."""
        return self._shape[0]

    @batch_size.setter
    def batch_size(self, new_size: int) -> None:
        self._shape[0] = new_size

    @property
    def elem_size(self) -> int:
        """Values in one row."""
        return prod(self._shape[1:])


__all__ = ["Shape"]
