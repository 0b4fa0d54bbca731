"""The types that a JSON schema allows, for values that a model writes as text."""

import json
from collections.abc import Mapping
from typing import Any

KINDS: Mapping[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}
"""What a schema calls the values that JSON has."""

IMPLIED = {"properties": "object", "additionalProperties": "object", "items": "array"}
"""Keywords that show the type of a schema that does not name one."""

PYTHON = {"True": "true", "False": "false", "None": "null"}


def kinds_of(schema: Any, root: Any) -> set[str]:
    """The types of a schema, by what it names, refers to within the root and combines; none if anything is allowed."""
    kinds: set[str] = set()
    seen: set[str] = set()
    rest = [schema]
    while rest:
        each = rest.pop()
        if not isinstance(each, Mapping):
            continue
        kind = each.get("type")
        named = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
        values = each["enum"] if isinstance(each.get("enum"), list) else []
        values = [*values, each["const"]] if "const" in each else values
        if not named:
            named = [KINDS[type(value)][0] for value in values]
            named += [kind for keyword, kind in IMPLIED.items() if keyword in each]
        kinds.update(map(str, named), ["null"] if each.get("nullable") is True else ())
        for keyword in ("anyOf", "oneOf", "allOf"):
            rest += each[keyword] if isinstance(each.get(keyword), list) else []
        reference = str(each.get("$ref"))
        if reference not in seen:
            seen.add(reference)
            rest.append(_referred(root, reference))
    return kinds


def _referred(root: Any, reference: str) -> Any:
    """What a pointer such as `#/$defs/Filter` refers to; None for any other reference."""
    front, *keys = reference.split("/")
    for key in keys:
        root = root.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(root, Mapping) else None
    return root if front == "#" else None


def value_of(text: str, kinds: set[str]) -> Any:
    """A value in one of these types; the text where none is named, or it cannot be read."""
    if kinds <= {"string"}:
        return text
    try:
        value = json.loads(PYTHON.get(text, text), parse_constant=_no, strict=False)
    except (ValueError, RecursionError):
        return text
    return value if "string" not in kinds or not kinds.isdisjoint(KINDS[type(value)]) else text


def _no(constant: str) -> Any:
    raise ValueError(constant)
