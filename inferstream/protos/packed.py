"""Reads the numbers of packed fields into arrays, without a Python object for each.

A packed field is its numbers one after the other: of fixed size, or as varints, which hold seven bits a byte, the
lowest first, and end with a byte below 128 (protobuf's "Encoding").
"""

from typing import Any

import numpy as np
import numpy.typing as npt

PIECE = 64 * 1024
"""Bytes of varints that are read at once. The arrays in between take some twenty times as much memory."""

LONGEST = 10
"""Bytes of the longest varint, which has 64 bits."""

DTYPES: dict[int, "np.dtype[Any]"] = {
    number: np.dtype(name) for number, name in enumerate(("?", "<i4", "<i8", "<u4", "<u8", "<f4", "<f8"), 1)
}
"""Of the numeric fields of InferTensorContents, by number."""


def read_packed(number: int, value: memoryview) -> npt.NDArray[Any] | None:
    """The numbers in the field `number` of InferTensorContents; None for bytes that only protobuf can judge.

    Numbers beyond 32 bits lose their higher bits, as protobuf reads them.
    """
    dtype = DTYPES[number]
    if dtype.kind == "f":
        return np.frombuffer(value, dtype).copy() if len(value) % dtype.itemsize == 0 else None
    octets = np.frombuffer(value, np.uint8)
    is_last = octets < 128
    if not octets.size or not is_last[-1]:
        return None
    if is_last.all():
        return octets.astype(dtype)
    numbers = np.empty(np.count_nonzero(is_last), dtype)
    start = filled = 0
    while start < octets.size:
        end = start + PIECE
        if end < octets.size:
            ends = np.flatnonzero(is_last[end - LONGEST : end])
            if not ends.size:
                return None
            end += int(ends[-1]) + 1 - LONGEST
        piece = _read_varints(octets[start:end], is_last[start:end])
        if piece is None:
            return None
        numbers[filled : filled + piece.size] = piece if dtype.kind == "b" else piece.astype(dtype)
        start, filled = end, filled + piece.size
    return numbers


def _read_varints(
    octets: npt.NDArray[np.uint8], is_last: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint64] | None:
    ends = np.flatnonzero(is_last)
    starts = np.concatenate([[0], ends[:-1] + 1])
    sizes = ends - starts + 1
    if sizes.max() > LONGEST:
        return None
    places = np.arange(octets.size) - np.repeat(starts, sizes)
    bits = (octets & 127).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, starts)
