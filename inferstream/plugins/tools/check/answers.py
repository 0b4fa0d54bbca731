"""Model responses as values that can be compared, concatenated and printed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from inferstream.errors import InferstreamError
from inferstream.ext.values import object_array, to_bytes
from inferstream.testing import arrays
from inferstream.types import InferenceResponse, MetadataTensor

TOLERANCE = 1e-4
"""Relative and absolute tolerance, because batches may be computed in a different order than rows."""


class ComparedOutput(NamedTuple):
    """One output: its datatype, shape and values. Strings are bytes."""

    datatype: str
    shape: list[int]
    values: npt.NDArray[Any]


Answers = dict[str, ComparedOutput]


def decode_outputs(response: InferenceResponse) -> Answers:
    """Decode the outputs of a response, by name. Raises InferstreamError if an output cannot be decoded."""
    try:
        decoded = arrays(response)
    except ValueError as error:
        raise InferstreamError(f"the outputs cannot be read: {error}") from error
    return {
        output.name: ComparedOutput(str(output.datatype), list(output.shape), _to_bytes(decoded[output.name]))
        for output in response.outputs
    }


def _to_bytes(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype.kind not in "OUS":
        return values
    return object_array(to_bytes(values.ravel().tolist())).reshape(values.shape)


def are_equal(one: Answers, other: Answers) -> bool:
    """Whether names, datatypes, shapes and values are equal."""
    return one.keys() == other.keys() and all(
        part.datatype == other[name].datatype
        and part.shape == other[name].shape
        and are_close(part, other[name])
        for name, part in one.items()
    )


def are_close(one: ComparedOutput, other: ComparedOutput) -> bool:
    """Whether the values are equal, within the tolerance for floating-point numbers."""
    if one.values.shape != other.values.shape:
        return False
    if one.values.dtype.kind == "f":
        return bool(np.allclose(one.values, other.values, TOLERANCE, TOLERANCE, equal_nan=True))
    return bool(np.array_equal(one.values, other.values))


def join_answers(parts: Sequence[Answers]) -> Answers:
    """Concatenate the outputs of several responses along the first dimension."""
    names = {name: None for part in parts for name in part}
    return {name: _concatenate([part[name] for part in parts if name in part]) for name in names}


def _concatenate(parts: Sequence[ComparedOutput]) -> ComparedOutput:
    values = np.concatenate([part.values for part in parts]) if parts[0].values.ndim else parts[-1].values
    return ComparedOutput(parts[0].datatype, list(values.shape), values)


def join_text(part: ComparedOutput) -> bytes | None:
    """Return the concatenated strings of an output. Returns None if its values are not strings."""
    return b"".join(part.values.ravel().tolist()) if part.values.dtype.kind == "O" else None


def summarize_outputs(answers: Answers) -> str:
    """Format the outputs on one line for messages."""
    shown = (
        f"{name}={part.values.tolist()} ({part.datatype} {part.shape})" for name, part in answers.items()
    )
    line = ", ".join(shown)
    return line if len(line) <= 160 else f"{line[:157]}..."


def fits(answer: ComparedOutput, declared: MetadataTensor, shaped: bool) -> bool:
    """Whether an output has the declared datatype and, if `shaped`, the declared shape."""
    if answer.datatype != declared.datatype or not shaped:
        return answer.datatype == declared.datatype
    sizes = zip(declared.shape, answer.shape, strict=False)
    return len(declared.shape) == len(answer.shape) and all(wanted in (-1, size) for wanted, size in sizes)
