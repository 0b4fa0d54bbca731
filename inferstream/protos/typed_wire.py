"""Walks the bytes of typed messages: for arrays without a copy, and for the fault of a message that is none."""

from collections.abc import Collection, Iterator

from .grpc_requests import LARGE, varint

DATA = 3
"""Number of TensorProto's `data`."""

FIXED = {1: 8, 5: 4}
"""Sizes of the wire types of fixed size."""

Large = tuple[bytes, memoryview]
"""A TensorProto without its data, and the data."""


def fields_of(data: bytes | memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """Number and value of each field. The value is None, and the last, where the bytes are no message."""
    for number, _, value in _walk(memoryview(data)):
        yield number, value


def _walk(view: memoryview) -> Iterator[tuple[int, memoryview, memoryview | None]]:
    """Number, whole bytes and value of each field."""
    position, end = 0, len(view)
    while position < end:
        key, begin = varint(view, position)
        number, kind = key >> 3, key & 7
        if kind == 0:
            _, after = varint(view, begin)
        elif kind == 2:
            size, begin = varint(view, begin)
            after = begin + size
        else:
            after = begin + FIXED.get(kind, end)
        if after > end or not number:
            yield number, view[position:], None
            return
        yield number, view[position:after], view[begin:after]
        position = after


def take_large(data: bytes, arrays: Collection[int]) -> tuple[bytes, dict[int, Large]]:
    """A message without the large arrays in the fields `arrays`, and these.

    protobuf would copy an array into its message, and again for its reader. A message in which a field occurs twice,
    and one that is no message, is returned whole, because only protobuf merges and judges.
    """
    rest: list[memoryview] = []
    large: dict[int, Large] = {}
    seen: set[int] = set()
    for number, whole, value in _walk(memoryview(data)):
        if value is None or (number in arrays and number in seen):
            return data, {}
        seen.add(number)
        if number in arrays and len(value) >= LARGE and (split := _split(value)) is not None:
            large[number] = split
        else:
            rest.append(whole)
    return b"".join(rest), large


def _split(tensor: memoryview) -> Large | None:
    rest: list[memoryview] = []
    data: memoryview | None = None
    for number, whole, value in _walk(tensor):
        if value is None or (number == DATA and data is not None):
            return None
        if number == DATA:
            data = value
        else:
            rest.append(whole)
    return None if data is None else (b"".join(rest), data)
