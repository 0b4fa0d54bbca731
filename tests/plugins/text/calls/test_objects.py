import pytest

from inferstream.plugins.text.calls.objects import FAMILIES, ObjectParser
from inferstream.plugins.text.calls.parser import HELD


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
def test_object_keys_can_have_any_order(text: str) -> None:
    assert read(ObjectParser(FAMILIES["hermes"]), f"<tool_call>{text}</tool_call>") == CALL


def test_hermes_call_can_lack_end_tag() -> None:
    assert read(ObjectParser(FAMILIES["hermes"]), '<tool_call>{"name": "f", "arguments": {"a": 1}}\nSo') == [
        *CALL,
        ("text", "So"),
    ]


def test_mistral_has_two_formats() -> None:
    assert read(ObjectParser(FAMILIES["mistral"]), '[TOOL_CALLS]f[ARGS]{"a": 1}') == CALL
    assert (
        read(ObjectParser(FAMILIES["mistral"]), '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]') == CALL
    )


def test_json_answer_is_not_a_llama_call() -> None:
    answer = '{"name": {"first": "A"}, "parameters": 3}'
    assert read(ObjectParser(FAMILIES["llama"]), answer) == [("text", answer)]
    assert read(ObjectParser(FAMILIES["llama"]), '{"name": "f", "parameters": {"a": 1}}') == CALL


def test_oversized_object_is_text() -> None:
    text = f'<tool_call>{{"x": "{"y" * HELD}", "name": "f", "arguments": {{}}}}</tool_call>'
    assert read(ObjectParser(FAMILIES["hermes"]), text) == [("text", text)]
