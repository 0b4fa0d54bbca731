"""Finds duplicate keys of JSON objects, usually without a second parse."""

import json
from collections import Counter
from typing import Any

from ..errors import InvalidRequest
from .json_limits import outside_strings

LARGE = 32 * 1024
"""Size of a text in bytes from which its colons are counted exactly before it is parsed again."""

NAMED = 2**20
"""Largest text in bytes in which a duplicate key is searched for, at 60 ms a MB."""


def keys_of(value: Any) -> int:
    """The number of keys of all objects in a JSON value."""
    keys, level = 0, [value]
    while level:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                keys += len(each)
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level = inner
    return keys


def has_keys(text: bytes, expected: int) -> bool:
    """Whether colons alone show that a document has `expected` keys.

    Each key has a colon. If the number of colons equals `expected`, there is no other key. The same is true of
    colons right after a quotation mark, if no colon follows a space.
    """
    if text.count(b":") == expected:
        return True
    if text.count(b'":') != expected:
        return False
    # One test after the other: a generator takes six times as long.
    return not (b" :" in text or b"\t:" in text or b"\n:" in text or b"\r:" in text)


def refuse_duplicate_keys(text: bytes, expected: int) -> None:
    """Raise InvalidRequest when an object of the document has a key twice.

    `expected` is the number of keys after parsing; orjson keeps the last of two equal keys. A text whose colons
    do not show that there is no other key, such as one with a colon in a string, is parsed again, which is slow.
    """
    if has_keys(text, expected) or (len(text) > LARGE and outside_strings(text, b":") == expected):
        return
    if len(text) > NAMED:
        raise InvalidRequest("A key of an object is given twice.")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        unique_keys = dict(pairs)
        if len(unique_keys) != len(pairs):
            names = Counter(name for name, _ in pairs)
            raise InvalidRequest(f'key "{names.most_common(1)[0][0]}" is given twice')
        return unique_keys

    try:
        json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply.") from None
