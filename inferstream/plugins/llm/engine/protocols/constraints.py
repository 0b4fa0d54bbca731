"""Structured output: the constraint of an engine for the format that a client requests."""

from typing import Any

import orjson

from inferstream.plugins.text.fields import field_error

from ...grammars.beginnings import Beginning
from ...grammars.structural_tag import build_tag

MAX_FORMAT_LENGTH = 64 * 1024
"""Maximum characters of a format."""


def read_constraint(beginning: Beginning) -> tuple[str, Any] | None:
    """Return the kind of a constraint, a field of vllm.grpc.engine, and its value. None for any text.

    Raises InvalidRequest for a format that engines do not support.
    """
    form, name = beginning.form, beginning.name
    if form is None:
        return None
    if len(form) > MAX_FORMAT_LENGTH:
        raise field_error(name, f"{name} has more than {MAX_FORMAT_LENGTH} characters")
    try:
        return _read_format(orjson.loads(form), name)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise field_error(name, f"{name} cannot be read") from error


def _read_format(form: dict[str, Any], name: str) -> tuple[str, Any] | None:
    match kind := form["type"]:
        case "text":
            return None
        case "json_object":
            return kind, True
        case "json_schema":
            return kind, _json(form["json_schema"].get("schema", {"type": "object"}))
        case "regex" | "grammar":
            return kind, _check_string(form[kind])
        case "choice":
            return kind, [_check_string(each) for each in form["choice"]]
        case "calls":
            return "structural_tag", _json(build_tag(form["calls"]))
        case _:
            raise field_error(name, f'{name}: its type "{kind}" is unknown')


def _check_string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
