"""Comparison of responses: strings exactly, and numbers within a tolerance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from inferstream.types import InferenceResponse, ResponseOutput

from .tolerance import Tolerance


def describe_difference(
    expected: Sequence[InferenceResponse], actual: Sequence[InferenceResponse], tolerance: Tolerance
) -> str | None:
    """Describe the first difference between expected and actual responses. Returns None if they are equal.

    The strings of a streamed output are concatenated, so their boundaries do not matter.
    """
    ours, theirs = _outputs(expected), _outputs(actual)
    if ours.keys() != theirs.keys():
        return f"it has the outputs {', '.join(theirs) or 'none'}, expected {', '.join(ours) or 'none'}"
    for name, parts in ours.items():
        if (why := _describe_output_difference(parts, theirs[name], tolerance)) is not None:
            return f'output "{name}": {why}'
    return None


def _outputs(responses: Sequence[InferenceResponse]) -> dict[str, list[ResponseOutput]]:
    parts: dict[str, list[ResponseOutput]] = {}
    for response in responses:
        for output in response.outputs:
            parts.setdefault(output.name, []).append(output)
    return parts


def _describe_output_difference(
    ours: list[ResponseOutput], theirs: list[ResponseOutput], tolerance: Tolerance
) -> str | None:
    kinds, other_kinds = _datatypes(ours), _datatypes(theirs)
    if kinds != other_kinds:
        return f"it is {other_kinds}, expected {kinds}"
    if kinds == "BYTES":
        return None if _text(ours) == _text(theirs) else "the texts differ"
    shapes, other_shapes = ([output.shape for output in outputs] for outputs in (ours, theirs))
    if shapes != other_shapes:
        return f"the shapes are {_short(other_shapes)}, expected {_short(shapes)}"
    return describe_number_difference(_numbers(ours), _numbers(theirs), tolerance)


def describe_number_difference(
    expected: npt.ArrayLike, actual: npt.ArrayLike, tolerance: Tolerance
) -> str | None:
    """Describe where two arrays of the same length differ by more than the tolerance, or return None."""
    one, other = np.asarray(expected), np.asarray(actual)
    close = np.isclose(other, one, tolerance.relative, tolerance.absolute, equal_nan=True)
    if close.all():
        return None
    first = int(np.argmin(close))
    count = f"{close.size - int(close.sum())} of {close.size} numbers"
    return f"{count} differ; the first of them is {other[first]}, expected {one[first]}"


def _datatypes(outputs: list[ResponseOutput]) -> str:
    return ", ".join(sorted({str(output.datatype) for output in outputs}))


def _text(outputs: list[ResponseOutput]) -> list[bytes]:
    """Return the concatenated strings of a stream, or the elements of a single response."""
    elements = [list(map(_to_bytes, output.data.flat())) for output in outputs]
    return elements[0] if len(elements) == 1 else [b"".join(part for each in elements for part in each)]


def _to_bytes(element: Any) -> bytes:
    return element.encode() if isinstance(element, str) else bytes(element or b"")


def _numbers(outputs: list[ResponseOutput]) -> npt.NDArray[Any]:
    return np.concatenate([output.data.to_numpy(str(output.datatype)).ravel() for output in outputs])


def _short(shapes: list[list[int]]) -> str:
    return f"{shapes[:3]} and {len(shapes) - 3} more" if len(shapes) > 3 else str(shapes)
