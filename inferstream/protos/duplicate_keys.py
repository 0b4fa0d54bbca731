"""Finds keys that a JSON object names twice, mostly without parsing it a second time."""

import json
from typing import Any

from ..errors import InvalidRequest

_SPACED_COLONS = (b" :", b"\t:", b"\n:", b"\r:")


def refuse_duplicate_keys(text: bytes, expected: int) -> None:
    """Raise InvalidRequest when an object of the document names a key twice.

    `expected` is the number of keys that were found, of which orjson has dropped the first of two equal ones.
    Each key has a colon. As many colons as keys, in all or right behind a quotation mark where none stands
    behind a space, say that no key was dropped. Other texts, with a colon in a string for example, are
    parsed again, slowly.
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
