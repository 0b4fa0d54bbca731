"""Lists in tensors."""

from collections.abc import Iterator

from inferstream.codecs.lists import is_list_of

ListElement = bytes | str
ListPayload = ListElement | list[ListElement]


def as_list(payload: ListPayload) -> Iterator[ListElement]:
    """The elements of a list; anything else is one element."""
    return iter(payload if isinstance(payload, list) else [payload])


__all__ = ["ListElement", "ListPayload", "as_list", "is_list_of"]
