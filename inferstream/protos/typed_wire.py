"""Walks the bytes of typed messages: for arrays without a copy, and for the fault of a message that is none."""

from collections.abc import Collection, Iterator

from .grpc_requests import LARGE, walk

DATA = 3
"""Number of TensorProto's `data`."""

Large = tuple[bytes, memoryview]
"""A TensorProto without its data, and the data."""


def fields_of(data: bytes | memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """Number and value of each field. The value is None, and the last, where the bytes are no message."""
    for key, _, value in walk(memoryview(data)):
        yield key >> 3, value


def take_large(data: bytes, arrays: Collection[int]) -> tuple[bytes, dict[int, Large]]:
    """A message without the large arrays in the fields `arrays`, and these.

    protobuf would copy an array into its message, and again for its reader. A message in which a field occurs twice,
    and one that is no message, is returned whole, because only protobuf merges and judges.
    """
    rest: list[memoryview] = []
    large: dict[int, Large] = {}
    seen: set[int] = set()
    for key, whole, value in walk(memoryview(data)):
        number = key >> 3
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
    for key, whole, value in walk(tensor):
        if value is None or (key >> 3 == DATA and data is not None):
            return None
        if key >> 3 == DATA:
            data = value
        else:
            rest.append(whole)
    return None if data is None else (b"".join(rest), data)
