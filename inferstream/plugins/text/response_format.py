"""Structured output: the format that a client requests, as an object with a `type` as in chat completions."""

from collections.abc import Iterator
from typing import Any

import orjson

from inferstream.ext.http import JsonLimits

from .fields import Fields, wrong_field
from .inputs import RESPONSE_FORMAT, FieldTexts
from .interface import TextInterface

Inputs = dict[str, list[str | bytes]]

KINDS = ("text", "json", "json_object", "json_schema", "regex", "choice", "grammar")

STRUCTURED = "structured_outputs"

GUIDED = {
    **{f"guided_{kind}": kind for kind in ("json", "regex", "choice", "grammar")},
    "json_schema": "json",
    "regex": "regex",
}

FORMS = frozenset((RESPONSE_FORMAT, STRUCTURED, *GUIDED))
"""Request fields for the output format in OpenAI, vLLM, llama.cpp and SGLang."""

MAX_CHOICES = 1000


def read_response_format(fields: Fields, interface: TextInterface) -> Inputs:
    """Return the model input for the format that an OpenAI or vLLM client requests. Empty for free text.

    Raises InvalidRequest naming the field if it is invalid or the model does not declare this input.
    """
    if FORMS.isdisjoint(fields.names()):
        return {}
    asked = [*_iterate_formats(fields, interface.limits)]
    format = fields.object(RESPONSE_FORMAT)
    if format is not None and format.choice("type", KINDS) not in (None, "text"):
        asked.append((format, RESPONSE_FORMAT))
    if not asked:
        return {}
    if len(asked) > 1:
        raise wrong_field(asked[0][1], f"a text has one form, and {asked[1][1]} is one too")
    return format_inputs(asked[0][0], interface, asked[0][1])


def _iterate_formats(fields: Fields, limits: JsonLimits | None) -> Iterator[tuple[Fields, str]]:
    """Yield the formats in vLLM fields, and their paths."""
    for name, kind in GUIDED.items():
        if fields.get(name) is not None:
            yield _build_format(fields, name, kind, limits), name
    within = fields.object(STRUCTURED)
    for name in () if within is None else within.names():
        assert within is not None
        if name not in ("json", "json_object", *KINDS[4:]):
            raise within.wrong(name, "is not taken")
        if name != "json_object" or within.flag(name):
            yield _build_format(within, name, name, limits), within.path(name)


def _build_format(fields: Fields, name: str, kind: str, limits: JsonLimits | None) -> Fields:
    """Build a format from the content of a field."""
    if kind == "json":
        schema = fields.json(name, limits)
        if not isinstance(schema, dict):
            raise fields.wrong(name, "must be a JSON schema")
        form: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "output", "schema": schema}}
    else:
        form = {"type": kind} if kind == "json_object" else {"type": kind, kind: _content(fields, name, kind)}
    return Fields(form, fields.path(name))


def _content(fields: Fields, name: str, kind: str) -> Any:
    if kind != "choice":
        return fields.require_text(name)
    choices = fields.require_items(name, "choices", MAX_CHOICES)
    if not all(isinstance(each, str) and each for each in choices):
        raise fields.wrong(name, "must hold strings, none of them empty")
    return choices


def format_inputs(format: Fields | None, interface: TextInterface, path: str) -> Inputs:
    """Return the input for a format in the notation of chat completions. `path` names it in errors."""
    kind = None if format is None else format.choice("type", KINDS)
    if format is None or kind in (None, "text"):
        return {}
    if kind == "json" or (format.get(kind) is None and not {"schema", "value"}.isdisjoint(format.names())):
        name = "schema" if "schema" in format.names() else "value"  # as in llama.cpp and TGI
        format = _build_format(format, name, "json" if kind.startswith("json") else kind, interface.limits)
        kind = format.require_text("type")
    if not interface.takes(RESPONSE_FORMAT):
        raise wrong_field(path, f"the model does not write {kind}")
    if kind == "json_schema":
        format.require_object("json_schema").require_text("name")
    elif kind in ("regex", "choice", "grammar"):
        _content(format, kind, kind)
    texts: list[str | bytes] = [orjson.dumps({name: format.get(name) for name in format.names()}).decode()]
    return {RESPONSE_FORMAT: texts if path == RESPONSE_FORMAT else FieldTexts(texts, path)}
