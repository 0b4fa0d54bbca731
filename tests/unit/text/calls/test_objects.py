import pytest

from inferstream.text.calls.objects import FAMILIES, ObjectParser
from inferstream.text.calls.parser import HELD


def read(parser, text: str) -> list[tuple[str, str]]:
    return [tuple(delta) for delta in [*parser.push(text), *parser.finish()]]


CALL = [("call", "f"), ("arguments", '{"a": 1}')]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "f", "arguments": {"a": 1}}',
        '{"type": "function", "name": "f", "arguments": {"a": 1}, "id": 7}',
    ],
)
def test_the_keys_of_an_object_may_have_any_order(text: str) -> None:
    assert read(ObjectParser(FAMILIES["hermes"]), f"<tool_call>{text}</tool_call>") == CALL


def test_a_call_of_hermes_may_lack_its_end() -> None:
    assert read(ObjectParser(FAMILIES["hermes"]), '<tool_call>{"name": "f", "arguments": {"a": 1}}\nSo') == [
        *CALL,
        ("text", "So"),
    ]


def test_mistral_has_two_forms() -> None:
    assert read(ObjectParser(FAMILIES["mistral"]), '[TOOL_CALLS]f[ARGS]{"a": 1}') == CALL
    assert (
        read(ObjectParser(FAMILIES["mistral"]), '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]') == CALL
    )


def test_an_answer_of_json_is_no_call_of_llama() -> None:
    answer = '{"name": {"first": "A"}, "parameters": 3}'
    assert read(ObjectParser(FAMILIES["llama"]), answer) == [("text", answer)]
    assert read(ObjectParser(FAMILIES["llama"]), '{"name": "f", "parameters": {"a": 1}}') == CALL


def test_an_object_that_is_too_large_to_hold_is_text() -> None:
    text = f'<tool_call>{{"x": "{"y" * HELD}", "name": "f", "arguments": {{}}}}</tool_call>'
    assert read(ObjectParser(FAMILIES["hermes"]), text) == [("text", text)]
