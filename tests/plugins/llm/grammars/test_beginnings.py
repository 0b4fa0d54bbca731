"""How answers begin, by what a request asks for and how its model writes."""

import json

import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.llm.grammars.beginnings import Beginning, Beginnings

FORM = '{"type": "json_object"}'
TOOLS = json.dumps([{"type": "function", "function": {"name": "f"}}])
STRICT = json.dumps([{"type": "function", "function": {"name": "f", "strict": True}}])
NAMED = json.dumps({"type": "function", "function": {"name": "f"}})
CALLED = '<tool_call>\n{"name": "f", "arguments": {'


@pytest.mark.parametrize(
    ("calls", "asked", "beginning"),
    [
        (None, (None, None, None, True), Beginning()),
        (None, (None, None, FORM, True), Beginning("", FORM)),
        (None, (None, None, FORM, False), Beginning(None, FORM)),
        ("harmony", (None, None, FORM, True), Beginning("<|channel|>final<|message|>", FORM)),
        ("hermes", ("auto", TOOLS, FORM, True), Beginning("", FORM)),
        ("hermes", (NAMED, TOOLS, FORM, True), Beginning(CALLED)),
        ("hermes", (NAMED, None, FORM, True), Beginning("", FORM)),
        ("pythonic", (NAMED, STRICT, None, True), Beginning("[f(")),
    ],
)
def test_answer_starts_as_required(calls, asked, beginning) -> None:
    assert Beginnings(calls, forms=True).of(*asked) == beginning


def test_strict_function_follows_schema() -> None:
    begun, form, name = Beginnings("hermes", forms=True).of(NAMED, STRICT, FORM, True)
    assert (begun, name) == ('<tool_call>\n{"name": "', "tools")
    assert form is not None
    assert json.loads(form)["type"] == "calls"


def test_strict_function_is_lenient_without_library() -> None:
    assert Beginnings("hermes", forms=False).of(NAMED, STRICT, None, True) == Beginning(CALLED)


@pytest.mark.parametrize(
    ("choice", "tools", "message"),
    [
        ("some", TOOLS, "tool_choice cannot be read"),
        (NAMED, "{", "tools cannot be read"),
        (NAMED, "[1]", "tools cannot be read"),
        (NAMED, "[{}]", "tools cannot be read"),
    ],
)
def test_unreadable_format_is_named(choice: str, tools: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Beginnings("hermes", forms=True).of(choice, tools, None, True)
