"""Removal of values by their keys from JSON, and from events and lines of it."""

import json
import re
from collections.abc import Set
from typing import Any

REDACTED = "[redacted]"

_LINE = re.compile(r"(data: ?)?(\{.*\}|\[.*\])\r?")
_FRAME = re.compile(r"(?:(?:event|id|retry)?:.*|data: ?\[DONE\])?\r?")
"""Lines of events that hold no values."""


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
