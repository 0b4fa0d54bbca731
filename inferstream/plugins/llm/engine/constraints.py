"""Structured output: the constraint of the engine for the format that a client requests."""

from typing import Any

import orjson

from inferstream.plugins.text.fields import field_error

from ..grammars.beginnings import Beginning

MAX_FORMAT_LENGTH = 64 * 1024
"""Maximum characters of a format."""


def set_constraint(sampling: Any, beginning: Beginning) -> None:
    """Set the constraint of a `Sampling` message. Raises InvalidRequest for a format that engines do not know."""
    form, name = beginning.form, beginning.name
    if form is None:
        return
    if len(form) > MAX_FORMAT_LENGTH:
        raise field_error(name, f"{name} has more than {MAX_FORMAT_LENGTH} characters")
    try:
        _set_format(sampling, orjson.loads(form), name)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise field_error(name, f"{name} cannot be read") from error
    # The prompt has already closed the reasoning, so the text has this format from its start.
    sampling.grammar_from_first_token = sampling.WhichOneof("constraint") is not None


def _set_format(sampling: Any, form: dict[str, Any], name: str) -> None:
    match kind := form["type"]:
        case "text":
            return
        case "json_object":
            sampling.json_object = True
        case "json_schema":
            sampling.json_schema = _json(form["json_schema"].get("schema", {"type": "object"}))
        case "regex" | "grammar":
            setattr(sampling, kind, form[kind])
        case "choice":
            sampling.choice.choices.extend(form["choice"])
        case "calls":
            sampling.structural_tag = _json(build_tag(form["calls"]))
        case _:
            raise field_error(name, f'{name}: its type "{kind}" is unknown')


def build_tag(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the structural tag for one of these calls, with arguments that match its schema."""
    tags = [
        {
            "type": "tag",
            "begin": call["front"],
            "content": {"type": "json_schema", "json_schema": call["schema"]},
            "end": call["end"],
        }
        for call in calls
    ]
    return {"type": "structural_tag", "format": {"type": "or", "elements": tags}}


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
