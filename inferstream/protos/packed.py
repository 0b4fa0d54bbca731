"""Parses packed fields into arrays, without a Python object for each number.

A packed field holds consecutive numbers, either of fixed size or as varints. A varint has seven bits per
byte, lowest first, and its last byte is below 128 (protobuf's "Encoding").
"""

from typing import Any

import numpy as np
import numpy.typing as npt

PIECE = 64 * 1024
"""The number of varint bytes parsed at a time. Intermediate arrays use about twenty times as much memory."""

MAX_VARINT_BYTES = 10
"""The maximum length of a varint, in bytes, which encodes 64 bits."""

DTYPES: dict[int, "np.dtype[Any]"] = {
    number: np.dtype(name) for number, name in enumerate(("?", "<i4", "<i8", "<u4", "<u8", "<f4", "<f8"), 1)
}
"""Dtypes of the numeric fields of InferTensorContents, by field number."""


def read_packed_field(number: int, value: memoryview) -> npt.NDArray[Any] | None:
    """Return the numbers in field `number` of InferTensorContents.

    In 32-bit fields, larger numbers lose their upper bits, as in protobuf. Returns None for empty or
    malformed bytes, which are left to protobuf.
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
            ends = np.flatnonzero(is_last[end - MAX_VARINT_BYTES : end])
            if not ends.size:
                return None
            end += int(ends[-1]) + 1 - MAX_VARINT_BYTES
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
    if sizes.max() > MAX_VARINT_BYTES:
        return None
    places = np.arange(octets.size) - np.repeat(starts, sizes)
    bits = (octets & 127).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(bits, starts)
