"""Responses as values that can be compared, joined and described."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inferstream.ext.values import object_array, to_bytes

from ...errors import InferstreamError
from ...testing import arrays
from ...types import InferenceResponse, MetadataTensor

TOLERANCE = 1e-4
"""Relative and absolute: a batch may be computed in another order than its rows."""


class ComparedOutput(NamedTuple):
    """An output: what it says that it is, and its values, of which texts are bytes."""

    datatype: str
    shape: list[int]
    values: npt.NDArray[Any]


Answers = dict[str, ComparedOutput]


def answers(response: InferenceResponse) -> Answers:
    """The outputs by name. Raises InferstreamError for one that cannot be decoded."""
    try:
        decoded = arrays(response)
    except ValueError as error:
        raise InferstreamError(f"the outputs cannot be read: {error}") from error
    return {
        output.name: ComparedOutput(str(output.datatype), list(output.shape), _octets(decoded[output.name]))
        for output in response.outputs
    }


def _octets(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype.kind not in "OUS":
        return values
    return object_array(to_bytes(values.ravel().tolist())).reshape(values.shape)


def same(one: Answers, other: Answers) -> bool:
    """Whether names, datatypes, shapes and values are equal."""
    return one.keys() == other.keys() and all(
        part.datatype == other[name].datatype and part.shape == other[name].shape and equal(part, other[name])
        for name, part in one.items()
    )


def equal(one: ComparedOutput, other: ComparedOutput) -> bool:
    """Whether the values are equal, numbers within the tolerance."""
    if one.values.shape != other.values.shape:
        return False
    if one.values.dtype.kind == "f":
        return bool(np.allclose(one.values, other.values, TOLERANCE, TOLERANCE, equal_nan=True))
    return bool(np.array_equal(one.values, other.values))


def joined(parts: Sequence[Answers]) -> Answers:
    """The outputs of several responses, one after the other along their first dimension."""
    names = {name: None for part in parts for name in part}
    return {name: _concatenated([part[name] for part in parts if name in part]) for name in names}


def _concatenated(parts: Sequence[ComparedOutput]) -> ComparedOutput:
    values = np.concatenate([part.values for part in parts]) if parts[0].values.ndim else parts[-1].values
    return ComparedOutput(parts[0].datatype, list(values.shape), values)


def text(part: ComparedOutput) -> bytes | None:
    """All texts of an output together; None if it is of numbers."""
    return b"".join(part.values.ravel().tolist()) if part.values.dtype.kind == "O" else None


def brief(answers: Answers) -> str:
    """The outputs on one line."""
    shown = (
        f"{name}={part.values.tolist()} ({part.datatype} {part.shape})" for name, part in answers.items()
    )
    line = ", ".join(shown)
    return line if len(line) <= 160 else f"{line[:157]}..."


def fits(answer: ComparedOutput, declared: MetadataTensor, shaped: bool) -> bool:
    """Whether an output has the declared datatype and, where one is `shaped`, the declared shape."""
    if answer.datatype != declared.datatype or not shaped:
        return answer.datatype == declared.datatype
    sizes = zip(declared.shape, answer.shape, strict=False)
    return len(declared.shape) == len(answer.shape) and all(wanted in (-1, size) for wanted, size in sizes)
