"""Forms as grammars, and what a trial finds wrong with one. The program with its limits is in test_matching.py."""

import json
import re
from typing import Any

import pytest
from llguidance import LLMatcher, LLTokenizer

from inferstream.plugins.llm.grammars.trial import to_grammar, try_grammar


def schema(document: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"schema": document}}


PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["cat", "dog"]},
        "at": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
    "required": ["name", "kind", "at"],
    "additionalProperties": False,
}
TOM = {"name": "Tom", "kind": "cat", "at": {"x": 1}}
CALLS = {
    "type": "calls",
    "calls": [
        {"front": 'f", "arguments": ', "schema": PERSON["properties"]["at"], "end": "}]"},
        {"front": 'g", "arguments": ', "schema": {"type": "object"}, "end": "}"},
    ],
}
EITHER = {"oneOf": [{"const": 1}, {"const": "a"}]}  # as for a union of pydantic's with a discriminator


def fits(form: dict[str, Any], text: str) -> bool:
    """Whether a text is whole by the grammar of a form."""
    grammar = to_grammar(form)
    assert try_grammar(grammar) == ""
    matcher = LLMatcher(LLTokenizer("byte"), grammar, log_level=0)
    return matcher.consume_tokens([*text.encode()]) and matcher.is_accepting()


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        ({"type": "text"}, "any\nüber", None),
        ({"type": "json_object"}, '{"a": [1, null]}', "[1]"),
        (schema(PERSON), json.dumps(TOM), json.dumps({**TOM, "kind": "bird"})),
        (schema(PERSON), json.dumps(TOM, indent=4), json.dumps({**TOM, "more": 1})),
        (schema(PERSON), json.dumps(TOM, separators=(",", ":")), json.dumps({"name": "Tom"})),
        (schema(EITHER), '"a"', '"b"'),
        ({"type": "json_schema", "json_schema": {}}, "{}", "1"),
        ({"type": "regex", "regex": "[a-c]{2}|ü"}, "ü", "abc"),
        ({"type": "choice", "choice": ['a "quoted" one', "日本", "b\n\\"]}, "b\n\\", "a"),
        ({"type": "choice", "choice": ['a "quoted" one', "日本", "b\n\\"]}, 'a "quoted" one', '"日本"'),
        (CALLS, 'f", "arguments": {"x": 1}}]', 'f", "arguments": {"x": "1"}}]'),
        (CALLS, 'g", "arguments": {"any": {}}}', 'g", "arguments": 1}'),
        ({"type": "grammar", "grammar": 'root ::= "a" [0-9]+'}, "a12", "a"),
        ({"type": "grammar", "grammar": 'start: "a" /[0-9]+/'}, "a12", "b1"),
    ],
)
def test_grammar_accepts_its_format(form: dict[str, Any], right: str, wrong: str | None) -> None:
    assert fits(form, right)
    assert wrong is None or not fits(form, wrong)


def test_json_white_space_is_bounded() -> None:
    assert fits({"type": "json_object"}, "{" + " " * 32 + "}")
    assert not fits({"type": "json_object"}, "{" + " " * 33 + "}")


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"type": "regex", "regex": "(a"}, "unclosed group"),
        ({"type": "regex", "regex": r"(a)\1"}, "backreferences are not supported"),
        ({"type": "regex", "regex": "(" * 1000 + ")" * 1000}, "invalid regex"),
        ({"type": "regex", "regex": "(((a{100}){100}){100}){100}"}, "too many expressions"),
        (schema({"type": "thing"}), "Invalid type: thing"),
        (schema({"if": {"const": 1}}), r'Unimplemented keys: \["if"\]'),
        (schema({"type": "string", "pattern": "("}), "unclosed group"),
        (schema({"$ref": "#"}), "no text has this form"),
        (schema({"$ref": "http://127.0.0.1:1/"}), "does not fetch"),
        (schema({"enum": []}), "Unsatisfiable"),
        ({"type": "grammar", "grammar": "start: missing"}, "missing"),
    ],
)
def test_trial_reports_error(form: dict[str, Any], reason: str) -> None:
    assert re.search(reason, try_grammar(to_grammar(form)))


@pytest.mark.parametrize("form", [{}, {"type": "xml"}, {"type": "json_schema"}, schema(3), schema("{")])
def test_invalid_format_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        to_grammar(form)
