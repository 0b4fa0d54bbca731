"""Removal of values by their keys from JSON, and from events and lines of it."""

import json
import re
from collections.abc import Set
from typing import Any

REDACTED = "[redacted]"

_LINE = re.compile(r"^(data: ?)?(\{.*\}|\[.*\])$", re.MULTILINE)


def redacted(content: bytes | str, names: Set[str]) -> str | None:
    """JSON, events or lines of JSON without the values of these names; None for what is neither.

    A tensor of such a name keeps its name and loses its data.
    """
    try:
        text = content if isinstance(content, str) else content.decode()
    except UnicodeDecodeError:
        return None
    try:
        return json.dumps(_clean(json.loads(text), names))
    except ValueError:
        pass
    rest = _LINE.sub("", text)
    if re.search(r"^(data|\s*[{\[])", rest.replace("data: [DONE]", ""), re.MULTILINE) or not _LINE.search(
        text
    ):
        return None
    try:
        return _LINE.sub(lambda line: (line[1] or "") + json.dumps(_clean(json.loads(line[2]), names)), text)
    except ValueError:
        return None


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
