"""Finds duplicate keys of JSON objects, usually without a second parse."""

import json
from typing import Any

from ..errors import InvalidRequest

_SPACED_COLONS = (b" :", b"\t:", b"\n:", b"\r:")


def refuse_duplicate_keys(text: bytes, expected: int) -> None:
    """Raise InvalidRequest when an object of the document has a key twice.

    `expected` is the number of keys after parsing; orjson keeps the last of two equal keys. Each key has a colon.
    If the number of colons equals `expected`, there is no duplicate. The same is true of colons right after a
    quotation mark, if no colon follows a space. Other texts, such as one with a colon in a string, are parsed
    again, which is slow.
    """
    if text.count(b":") == expected:
        return
    if text.count(b'":') == expected and not any(spaced in text for spaced in _SPACED_COLONS):
        return

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            raise InvalidRequest(
                f'key "{next(name for name in names if names.count(name) > 1)}" is given twice'
            )
        return found

    try:
        json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply.") from None
