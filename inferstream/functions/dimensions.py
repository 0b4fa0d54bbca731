"""Named dimensions of what a function returns: equal names have equal sizes within a call."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..codecs.values.arrays import Array, Dimension
from ..errors import InvalidOutput
from .arguments import Sizes

if TYPE_CHECKING:
    from .function import Function


class ReturnedSizes:
    """Checks values that a function returns or yields against the sizes of its arguments."""

    def __init__(self, dimensions: list[tuple[Dimension, ...] | None], several: bool) -> None:
        self._dimensions = dimensions
        self._several = several

    def check(self, model: str, sizes: Sizes, returned: Any) -> None:
        """Raises InvalidOutput for a size that differs. Other faults are those of the writer."""
        parts = returned if self._several and isinstance(returned, tuple) else (returned,)
        known = {name: size for name, (size, _) in sizes.items()}
        for dimensions, part in zip(self._dimensions, parts, strict=False):
            for size, name in zip(np.shape(part), dimensions or (), strict=False):
                if isinstance(name, str) and known.setdefault(name, size) != size:
                    raise InvalidOutput(
                        f'Model {model} returned {size} for dimension "{name}", which is {known[name]}.'
                    )


def returned_sizes(function: "Function") -> ReturnedSizes | None:
    """The check of a function's results; None for one whose results have no named dimensions."""
    values = function.results.values.values()
    dimensions = [value.dimensions if isinstance(value, Array) else None for value in values]
    if not any(isinstance(name, str) for sizes in dimensions for name in sizes or ()):
        return None
    return ReturnedSizes(dimensions, function.results.several)
