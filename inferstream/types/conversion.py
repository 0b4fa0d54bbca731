"""Exact conversion of Python values and raw bytes to tensor values. Raises ValueError for inexact values."""

import re
import struct
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from .datatypes import DTYPES, FLOATS

MAX_RANK = 32
"""The maximum nesting depth of `data`. NumPy's limit is 64."""


def flatten(values: Any) -> list[Any]:
    """Flatten nested lists in row-major order. A single value becomes a list of one.

    Raises ValueError for ragged nesting and for nesting deeper than `MAX_RANK`.
    """
    return _flatten(values)[0]


def _flatten(values: Any) -> tuple[list[Any], set[type]]:
    """Return the flat list and the types in it. `map` and `set` keep the loop in C."""
    if not isinstance(values, (list, tuple)):
        return ([], set()) if values is None else ([values], {type(values)})
    level: list[Any] = values if isinstance(values, list) else list(values)
    kinds = set(map(type, level))
    depth = 0
    while list in kinds or tuple in kinds:
        depth += 1
        if depth == MAX_RANK:
            raise ValueError(f"data is nested deeper than {MAX_RANK} levels")
        if not kinds <= {list, tuple} or len(set(map(len, level))) > 1:
            raise ValueError("data is ragged: nested lists of different lengths")
        level = list(chain.from_iterable(level))
        kinds = set(map(type, level))
    return level, kinds


_REAL = {int, float, type(None)}
_NUMBERS = {bool, *_REAL}


def array_from_values(values: Any, datatype: str) -> npt.NDArray[Any]:
    """Convert Python values to a flat array of the dtype of `datatype`, without changing any value.

    Raises ValueError for strings, fractions and overflows, which NumPy would parse, truncate or turn into
    infinity. `None` becomes NaN, but only in floating-point tensors.
    """
    flat, kinds = _flatten(values)
    if not kinds <= _NUMBERS and any(issubclass(kind, np.generic) for kind in kinds):
        flat = [value.item() if isinstance(value, np.generic) else value for value in flat]
        kinds = set(map(type, flat))
    dtype = DTYPES[datatype]
    if not flat:
        return np.empty(0, dtype)
    if datatype == "BOOL":
        return _booleans(flat, kinds)
    if datatype in FLOATS:
        return _floats(flat, kinds, datatype, dtype)
    return _integers(flat, kinds, datatype, dtype)


def _booleans(flat: list[Any], kinds: set[type]) -> npt.NDArray[Any]:
    if kinds == {bool} or (kinds <= {bool, int} and all(value in (0, 1) for value in flat)):
        return np.array(flat, dtype=bool)
    culprit = next(value for value in flat if not isinstance(value, (bool, int)) or value not in (0, 1))
    raise ValueError(f"BOOL needs true or false, got {_brief(culprit)}")


def _floats(flat: list[Any], kinds: set[type], datatype: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if not kinds <= _REAL:
        culprit = next(value for value in flat if type(value) not in _REAL)
        raise ValueError(f"{datatype} needs a number, got {_brief(culprit)}")
    if dtype.itemsize < 8 and type(None) not in kinds:
        try:
            # Unlike NumPy, `struct` raises an error for an overflow, at the same speed.
            packed = bytearray(_packer(len(flat), dtype.char)(*flat))
            return np.ndarray(len(flat), dtype, packed)
        except (OverflowError, struct.error):
            raise ValueError(f"a value is out of range for {datatype}") from None
    try:
        wide = np.array(flat, dtype=np.float64)
    except OverflowError:
        raise ValueError(f"a value is out of range for {datatype}") from None
    if dtype.itemsize == 8:
        return wide
    with np.errstate(over="ignore"):
        narrow = wide.astype(dtype)
    _check_finite(narrow, wide, datatype)
    return narrow


@lru_cache(256)
def _packer(count: int, kind: str) -> Callable[..., bytes]:
    return struct.Struct(f"<{count}{kind}").pack


def _integers(flat: list[Any], kinds: set[type], datatype: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if kinds != {int}:
        flat = [_integer(value, datatype) for value in flat]
    try:
        return np.array(flat, dtype=dtype)
    except OverflowError:
        limits = np.iinfo(dtype)
        culprit = next(value for value in flat if not limits.min <= value <= limits.max)
        raise ValueError(f"{_brief(culprit)} is out of range for {datatype}") from None


def _integer(value: Any, datatype: str) -> int:
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return to_integer(value, datatype)
    raise ValueError(f"{datatype} needs an integer, got {_brief(value)}")


def to_integer(value: float, datatype: str) -> int:
    """Convert a float to an integer.

    Raises ValueError beyond 64 bits, because JSON parsers round such integers to floats.
    """
    if not -(2**63) < value < 2**64:
        raise ValueError(f"an integer beyond 64 bits is out of range for {datatype}")
    return int(value)


def cast_exactly(array: npt.NDArray[Any], datatype: str) -> npt.NDArray[Any]:
    """Cast an array to the dtype of `datatype`. Floating-point values may lose precision.

    Raises ValueError if a value would wrap, be truncated, become infinite or change its kind.
    """
    dtype = DTYPES[datatype]
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{datatype} cannot hold an array of {array.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(cast, array):
        raise ValueError(f"{datatype} cannot hold every value of an array of {array.dtype}")
    if not np.can_cast(array.dtype, dtype):
        _check_finite(cast, array, datatype)
    return cast


def as_array(value: Any) -> npt.NDArray[Any]:
    """Like `np.asarray`, but also accepts torch tensors with gradients, on an accelerator or in bfloat16.

    Raises TypeError or ValueError.
    """
    if not hasattr(value, "detach"):
        return np.asarray(value)
    try:
        try:
            return np.asarray(value.numpy(force=True))
        except TypeError:
            return np.asarray(value.float().numpy(force=True))
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def plain_array(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert an instance of a NumPy subclass to a plain array. Masked values become NaN.

    Raises ValueError for masked values of a dtype without NaN.
    """
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        if array.dtype.kind not in "fc":
            raise ValueError(
                f"an array of {array.dtype} with masked values: only floating-point values may be missing"
            )
        return np.asarray(array.filled(np.nan))
    return np.asarray(array)


def _check_finite(cast: npt.NDArray[Any], array: npt.NDArray[Any], datatype: str) -> None:
    """Raise ValueError if a value of `array` became infinite in `cast`, its cast to `datatype`."""
    if (np.isinf(cast) & ~np.isinf(array)).any():
        raise ValueError(f"a value is out of range for {datatype}")


NESTING = {list, tuple, dict}
"""Types that nest values."""


def check_depth(values: Any) -> None:
    """Raise ValueError for lists and objects nested deeper than `MAX_RANK`, so that recursion is safe."""
    level = values if type(values) is list else [values]
    for _ in range(MAX_RANK):
        if NESTING.isdisjoint(map(type, level)):
            return
        within = [value for value in level if isinstance(value, (list, tuple, dict))]
        level = list(
            chain.from_iterable(each.values() if isinstance(each, dict) else each for each in within)
        )
    raise ValueError(f"data is nested deeper than {MAX_RANK} levels")


TEXT = {str, bytes, type(None)}
"""The usual types of BYTES elements."""


def cast_loosely(values: Any, datatype: str) -> npt.NDArray[Any]:
    """Convert Python values to an array of the dtype of `datatype` as NumPy does, with the same nesting.

    `true` and `"1"` become numbers, fractions are truncated to integers, and `None` becomes NaN. Raises
    ValueError if NumPy cannot convert them.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array(values, DTYPES[datatype])
    except (TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"no array of {datatype}: {error}") from None


def check_bytes(values: Any) -> int:
    """Count BYTES elements. Raises ValueError unless each is a string, bytes or None."""
    if type(values) is list and TEXT.issuperset(map(type, values)):
        return len(values)  # The usual case, without the 0.5 µs of flattening.
    flat, kinds = _flatten(values)
    if not kinds <= TEXT:
        for value in flat:
            if value is not None and not isinstance(value, (str, bytes, bytearray, memoryview)):
                raise ValueError(f"BYTES needs strings, got {_brief(value)}")
    return len(flat)


def split_bytes(raw: memoryview | bytes, most: int | None = None) -> list[bytes]:
    """Split raw contents into BYTES elements.

    Raises ValueError if a length exceeds the remaining bytes, if bytes are left over, or for more than `most`
    elements.
    """
    view = memoryview(raw)
    elements: list[bytes] = []
    position, end = 0, len(view)
    while position < end:
        if len(elements) == most:
            raise ValueError(f"BYTES has more than {most} elements (setting max_json_values)")
        start = position + 4
        if start > end:
            raise ValueError(f"{end - position} bytes are left over after the last BYTES element")
        position = start + int.from_bytes(view[position:start], "little")
        if position > end:
            raise ValueError(
                f"BYTES element {len(elements)} claims {position - start} bytes, {end - start} are left"
            )
        elements.append(bytes(view[start:position]))
    return elements


def join_bytes(values: list[Any]) -> bytes:
    """Encode BYTES elements as raw contents: each element follows its 4-byte little-endian length."""
    parts: list[bytes] = []
    for value in values:
        element = to_bytes(value)
        parts.append(len(element).to_bytes(4, "little"))
        parts.append(element)
    return b"".join(parts)


def to_bytes(value: Any) -> bytes:
    """Convert a BYTES element to bytes. None becomes empty bytes.

    Raises TypeError unless the element is a string, bytes or None.
    """
    if isinstance(value, str):
        return value.encode()
    if value is None:
        return b""
    # `bytes(3)` would return three NULs.
    return value if type(value) is bytes else bytes(memoryview(value))


def _brief(value: Any) -> str:
    text = "null" if value is None else repr_without_address(value)
    return text if len(text) <= 40 else text[:37] + "..."


def repr_without_address(value: Any) -> str:
    """Return the `repr` of a value without memory addresses, which clients must not see."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))
