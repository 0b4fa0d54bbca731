"""Lists in tensors."""

from inferstream.codecs.lists import as_list, is_list_of

ListElement = bytes | str
ListPayload = ListElement | list[ListElement]

__all__ = ["ListElement", "ListPayload", "as_list", "is_list_of"]
