"""Tables of tests that have each pair of values of any two axes, instead of every combination."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any


def pairwise(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows with a value of each axis, the same in each run: each takes the pairs that no row before it has."""
    left = {
        ((one, a), (other, b)): None
        for (one, values), (other, others) in combinations(enumerate(axes), 2)
        for a in range(len(values))
        for b in range(len(others))
    }
    rows = []
    while left:
        row = dict(next(iter(left)))
        for axis, values in enumerate(axes):
            if axis not in row:
                row[axis] = max(range(len(values)), key=lambda value, at=axis: _count(left, row, (at, value)))
        for pair in combinations(sorted(row.items()), 2):
            left.pop(pair, None)
        rows.append(tuple(values[row[axis]] for axis, values in enumerate(axes)))
    return rows


def _count(left: dict[Any, None], row: dict[int, int], chosen: tuple[int, int]) -> int:
    """How many pairs the value would take."""
    return sum(tuple(sorted((chosen, other))) in left for other in row.items())
