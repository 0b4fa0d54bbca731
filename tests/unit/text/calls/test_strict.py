"""Calls by the schemas of their tools: what a form allows behind an opening is read as the call that was asked for."""

import json
from typing import Any

import pytest

from inferstream.text.calls.formats import PARSERS, opening, reading
from inferstream.text.calls.strict import AROUND, strict_form

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}}
STRICT = {"type": "function", "function": {"name": 'f"ü', "strict": True, "parameters": POINT}}
LOOSE = {"type": "function", "function": {"name": "g", "parameters": POINT}}
TOOLS = json.dumps([STRICT, LOOSE])


def named(name: str) -> str:
    return json.dumps({"type": "function", "function": {"name": name}})


def form(*arguments: Any) -> Any:
    found = strict_form(*arguments)
    return None if found is None else json.loads(found)


@pytest.mark.parametrize("format", AROUND)
@pytest.mark.parametrize("choice", ["required", named('f"ü')])
def test_a_text_of_the_form_is_a_call(format: str, choice: str) -> None:
    call = form(format, TOOLS, choice)["calls"][0]
    assert call["schema"] == POINT
    parser = reading(format, None, [STRICT, LOOSE])
    assert parser is not None
    text = opening(format, "required") + call["front"] + '{"x": 1}' + call["end"]
    deltas = [*parser.push(text), *parser.finish()]
    assert [(each.kind, each.text) for each in deltas if each.text] == [
        ("call", 'f"ü'),
        ("arguments", '{"x": 1}'),
    ]


def test_one_strict_function_binds_the_others_to_objects() -> None:
    schemas = [call["schema"] for call in form("hermes", TOOLS, "required")["calls"]]
    assert schemas == [POINT, {"type": "object"}]
    assert len(form("hermes", TOOLS, named('f"ü'))["calls"]) == 1
    bare = json.dumps([{"name": "f", "strict": True}])
    assert form("hermes", bare, named("f"))["calls"][0]["schema"] == {"type": "object"}


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_a_call_that_may_come_is_free(choice: str | None) -> None:
    assert form("hermes", TOOLS, choice) is None


def test_what_is_not_strict_is_free() -> None:
    assert form("hermes", TOOLS, named("g")) is None
    assert form("hermes", json.dumps([LOOSE]), "required") is None
    assert all(form(format, TOOLS, "required") is None for format in {*PARSERS, None} - {*AROUND})
