"""Walks the bytes of typed messages, to extract arrays without a copy and to find errors."""

from collections.abc import Collection, Iterator

from .grpc_requests import LARGE, walk

DATA = 3
"""The number of the field `data` in TensorProto."""

Large = tuple[bytes, memoryview]
"""A TensorProto without its data, and the data."""


def read_fields(data: bytes | memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """Yield the number and value of each field. For malformed bytes, the last value is None."""
    for key, _, value in walk(memoryview(data)):
        yield key >> 3, value


def take_large(data: bytes, arrays: Collection[int]) -> tuple[bytes, dict[int, Large]]:
    """Split a message into the rest and the large arrays in the fields `arrays`.

    protobuf would copy an array into its message, and again whenever it is read. Malformed messages, and
    messages in which an array field occurs twice, are returned unchanged, because only protobuf can report
    and merge them.
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
