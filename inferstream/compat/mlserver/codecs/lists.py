"""Lists in tensors."""

from inferstream.codecs.lists import as_list, is_list_of

__all__ = [
    "as_list",
    "is_list_of",
]
