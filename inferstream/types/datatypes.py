"""The datatypes of the V2 protocol and the corresponding NumPy dtypes."""

from collections.abc import Sequence
from enum import Enum
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt


class Datatype(str, Enum):
    """Element types of tensors (Open Inference Protocol, "Tensor Data Types").

    BF16 is a Triton extension: two bytes per element on the wire, `float32` in NumPy.
    """

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    BF16 = "BF16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"


NAMES = {member: member.value for member in Datatype} | {member.value: member.value for member in Datatype}
"""Datatype names, by enum member and by string. One lookup both checks and normalises a name."""


def describe_unknown(datatype: object) -> str:
    """Return the error message for a datatype that is not in `NAMES`."""
    return f"unknown datatype {datatype!r}; known are {', '.join(Datatype.__members__)}"


DTYPES: dict[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype("bool"),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "BF16": np.dtype("<f4"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
"""The NumPy dtype of each fixed-size datatype."""

WIRE_SIZES = {name: (2 if name == "BF16" else dtype.itemsize) for name, dtype in DTYPES.items()}
"""Bytes per element in raw contents. BYTES is absent, because its elements vary in size."""

INTEGERS = frozenset(name for name, dtype in DTYPES.items() if dtype.kind in "iu")
FLOATS = frozenset(name for name, dtype in DTYPES.items() if dtype.kind == "f")


def check_size(size: int, datatype: str, shape: Sequence[int] | None = None) -> None:
    """Raise ValueError unless the raw values of `shape` (not BYTES) take exactly `size` bytes.

    If `shape` is None, any whole number of values is valid.
    """
    each = WIRE_SIZES[datatype]
    if shape is None:
        if size % each:
            raise ValueError(f"{size} bytes are no whole number of {datatype} elements")
    elif size != (needed := prod(shape) * each):
        raise ValueError(f"shape {list(shape)} needs {needed} bytes of {datatype}, got {size}")


def view_raw(raw: memoryview | bytes, datatype: str) -> npt.NDArray[Any]:
    """Return a flat array of raw values (not BYTES), without a copy except for BF16.

    Raises ValueError if the size is not a multiple of the element size.
    """
    if datatype == "BF16":
        return widen_bf16(raw)
    try:
        return np.frombuffer(raw, dtype=DTYPES[datatype])
    except ValueError:
        check_size(len(raw), datatype)  # raises an error in the terms of the protocol
        raise


def widen_bf16(raw: memoryview | bytes) -> npt.NDArray[np.float32]:
    """Convert raw BF16 to float32. A BF16 value is the upper half of a float32."""
    halves = np.frombuffer(raw, dtype="<u2")
    return (halves.astype("<u4") << 16).view("<f4")


def narrow_bf16(array: npt.NDArray[np.float32]) -> bytes:
    """Convert float32 to raw BF16. The lower half is truncated, as in Triton clients."""
    return (np.ascontiguousarray(array, dtype="<f4").view("<u4") >> 16).astype("<u2").tobytes()
