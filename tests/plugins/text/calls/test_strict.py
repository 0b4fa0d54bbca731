"""Calls by the schemas of their tools: what a form allows behind an opening is read as the call that was asked for."""

import json
from typing import Any

import pytest

from inferstream.plugins.text.calls.formats import PARSERS, create_parser, find_call_opening
from inferstream.plugins.text.calls.strict import AROUND, build_strict_format

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}}
STRICT = {"type": "function", "function": {"name": 'f"ü', "strict": True, "parameters": POINT}}
LOOSE = {"type": "function", "function": {"name": "g", "parameters": POINT}}
TOOLS = json.dumps([STRICT, LOOSE])


def named(name: str) -> str:
    return json.dumps({"type": "function", "function": {"name": name}})


def form(*arguments: Any) -> Any:
    found = build_strict_format(*arguments)
    return None if found is None else json.loads(found)


@pytest.mark.parametrize("format", AROUND)
@pytest.mark.parametrize("choice", ["required", named('f"ü')])
def test_text_matching_format_is_a_call(format: str, choice: str) -> None:
    call = form(format, TOOLS, choice)["calls"][0]
    assert call["schema"] == POINT
    parser = create_parser(format, None, [STRICT, LOOSE])
    assert parser is not None
    text = find_call_opening(format, "required") + call["front"] + '{"x": 1}' + call["end"]
    deltas = [*parser.push(text), *parser.finish()]
    assert [(each.kind, each.text) for each in deltas if each.text] == [
        ("call", 'f"ü'),
        ("arguments", '{"x": 1}'),
    ]


def test_one_strict_function_requires_objects_from_others() -> None:
    schemas = [call["schema"] for call in form("hermes", TOOLS, "required")["calls"]]
    assert schemas == [POINT, {"type": "object"}]
    assert len(form("hermes", TOOLS, named('f"ü'))["calls"]) == 1
    bare = json.dumps([{"name": "f", "strict": True}])
    assert form("hermes", bare, named("f"))["calls"][0]["schema"] == {"type": "object"}


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_optional_call_is_unconstrained(choice: str | None) -> None:
    assert form("hermes", TOOLS, choice) is None


def test_non_strict_function_is_unconstrained() -> None:
    assert form("hermes", TOOLS, named("g")) is None
    assert form("hermes", json.dumps([LOOSE]), "required") is None
    assert all(form(format, TOOLS, "required") is None for format in {*PARSERS, None} - {*AROUND})
