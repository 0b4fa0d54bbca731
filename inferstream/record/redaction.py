"""Removal of values by their keys from JSON, and from events and lines of it; and of keys and sealed states."""

import json
import re
import zlib
from collections.abc import Set
from typing import Any

from ..telemetry.masks import hide_keys

REDACTED = "[redacted]"

_LINE = re.compile(r"(data: ?)?(\{.*\}|\[.*\])\r?")
_FRAME = re.compile(r"(?:(?:event|id|retry)?:.*|data: ?\[DONE\])?\r?")
"""Lines of events that hold no values."""

_COMPRESSED = (b"\x1f", b"\x78")
"""How gzip and deflate begin, and no JSON or event."""
_MOST_UNPACKED = 64 * 2**20
_STATE = b"ifs_state_"
_STATES = re.compile(_STATE + rb"[A-Za-z0-9_-]+")


def without_secrets(content: bytes | str, states: bool) -> bytes | str | None:
    """A content without keys, and without the `states` that clients keep: who has one may go on with its conversation.

    None for a compressed content that has one, or is too large to look into.
    """
    if isinstance(content, str):
        return hide_keys(content)
    if content[:1] in _COMPRESSED:
        unpacking = zlib.decompressobj(47)
        try:
            plain = unpacking.decompress(content, _MOST_UNPACKED)
        except zlib.error:
            plain = b""
        else:
            if not unpacking.eof or without_secrets(plain, states) != plain:
                return None
    if states and _STATE in content:
        content = _STATES.sub(_STATE + b"[redacted]", content)
    return hide_keys(content)


def redacted(content: bytes | str, names: Set[str]) -> str | None:
    """JSON, events or lines of JSON without the values of these names; None for what has anything else.

    A tensor of such a name keeps its name and loses its data.
    """
    try:
        text = content if isinstance(content, str) else content.decode()
        try:
            return json.dumps(_clean(json.loads(text), names))
        except ValueError:
            return _lines(text, names)
    except (ValueError, RecursionError):
        return None


def _lines(text: str, names: Set[str]) -> str | None:
    lines = []
    for line in text.split("\n"):
        if _FRAME.fullmatch(line):
            lines.append(line)
        elif (json_line := _LINE.fullmatch(line)) is not None:
            lines.append((json_line[1] or "") + json.dumps(_clean(json.loads(json_line[2]), names)))
        else:
            return None
    return "\n".join(lines)


def _clean(value: Any, names: Set[str]) -> Any:
    if isinstance(value, list):
        return [_clean(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    tensor = value.get("name") in names if isinstance(value.get("name"), str) else False
    return {
        key: REDACTED if key in names or (tensor and key == "data") else _clean(each, names)
        for key, each in value.items()
    }
