"""Blocks of a message, whatever the order in which a model yields its pieces."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import Code, InferstreamError, InvalidOutput
from inferstream.plugins.text.anthropic.events import TYPES, MessageFormat, error_object
from inferstream.plugins.text.calls.deltas import CallDeltas
from inferstream.plugins.text.reader import TextReader

Event = dict[str, Any]


def stream(*items: str | Event) -> list[Event]:
    """The events of a message that is made of texts and pieces of calls."""
    format, reader = MessageFormat("id", "model"), TextReader()
    written, deltas = b"", CallDeltas(reader.tool_calls)
    for item in items:
        text = item if isinstance(item, str) else ""
        if isinstance(item, dict):
            deltas.add(item)
        written += format.piece(0, text, reader)
    written += format.last(0, reader.end(), reader) + format.closing([reader])
    return [json.loads(event.partition("data: ")[2]) for event in written.decode().split("\n\n")[:-1]]


def whole(*items: str | Event) -> Event:
    reader = TextReader()
    deltas = CallDeltas(reader.tool_calls)
    for item in items:
        if isinstance(item, dict):
            deltas.add(item)
    reader.end()
    text = "".join(item for item in items if isinstance(item, str))
    return json.loads(MessageFormat("id", "model").whole([text], [reader]))


def call(index: int, arguments: str, name: str | None = None) -> Event:
    more = {} if name is None else {"id": f"call_{index}"}
    return {"index": index, **more, "function": {"name": name, "arguments": arguments}}


def content(events: list[Event]) -> list[Event]:
    """The blocks that a client makes of events, in which no two blocks may be open at once."""
    blocks: list[Event] = []
    pieces: list[str] = []
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"])
            pieces.clear()
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(blocks) - 1
            pieces.append(event["delta"].get("text", event["delta"].get("partial_json")))
        elif event["type"] == "content_block_stop":
            assert event["index"] == len(blocks) - 1
            field = "text" if blocks[-1]["type"] == "text" else "input"
            joined = "".join(pieces)
            blocks[-1][field] = joined if field == "text" else json.loads(joined or "{}")
    return blocks


CALLS = [
    [call(0, "", "a"), call(0, '{"x":'), call(0, "1}")],
    [call(1, "", "b"), call(1, "{}")],
    [call(2, '{"y":"ü"}', "c")],
]


@given(data=st.data())
def test_call_chunks_in_any_order_form_equal_calls(data: st.DataObject) -> None:
    queues = [[*pieces] for pieces in CALLS]
    pieces = []
    while left := [queue for queue in queues if queue]:
        pieces.append(data.draw(st.sampled_from(left)).pop(0))
    streamed = sorted(content(stream("text", *pieces)), key=lambda block: block.get("id", ""))
    assert streamed == sorted(whole("text", *pieces)["content"], key=lambda block: block.get("id", ""))


def test_message_without_text_has_no_block() -> None:
    events = stream()
    assert [event["type"] for event in events] == ["message_start", "message_delta", "message_stop"]
    assert whole()["content"] == []


def test_text_after_call_is_a_separate_block() -> None:
    events = stream("a", call(0, "{}", "f"), "b")
    assert [block["type"] for block in content(events)] == ["text", "tool_use", "text"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_call_cannot_continue_after_text() -> None:
    with pytest.raises(InvalidOutput, match="behind a text"):
        stream(call(0, "{", "f"), "b", call(0, "}"))


def test_call_with_late_empty_arguments_can_precede_text() -> None:
    blocks = content(stream(call(0, "", "f"), "b", call(0, "{}")))
    assert [block["type"] for block in blocks] == ["tool_use", "text"]
    assert blocks[0]["input"] == {}


def test_reasoning_block_precedes_text_and_calls() -> None:
    format, reader = MessageFormat("id", "model"), TextReader()
    written = b""
    for thought, text in (("six by", ""), (" seven", ""), ("", "42")):
        reader.reasoning = thought
        written += format.piece(0, text, reader)
    reader.reasoning = "more"
    reader.tool_calls.append(call(0, "{}", "f"))
    written += format.piece(0, "", reader)
    written += format.last(0, reader.end(), reader)
    events = [json.loads(event.partition("data: ")[2]) for event in written.decode().split("\n\n")[:-1]]
    assert [event["content_block"]["type"] for event in events if "content_block" in event] == [
        "thinking",
        "text",
        "thinking",
        "tool_use",
    ]
    thoughts = [event["delta"].get("thinking", "") for event in events if "delta" in event]
    assert "".join(thoughts) == "six by sevenmore"
    signed = [event["delta"] for event in events if "signature" in event.get("delta", {})]
    assert signed == [{"type": "signature_delta", "signature": "id"}] * 2


@pytest.mark.parametrize("arguments", ["{", "[]", "1"])
def test_non_object_arguments_are_model_failure(arguments: str) -> None:
    with pytest.raises(InvalidOutput, match="no JSON object"):
        whole(call(0, arguments, "f"))


@pytest.mark.parametrize("code", Code)
def test_each_code_has_a_known_error_type(code: Code) -> None:
    error = InferstreamError("why")
    error.code = code
    assert error_object(error) == {
        "type": "error",
        "error": {"type": TYPES.get(code, "api_error"), "message": "why"},
    }
    assert orjson.dumps(error_object(error))
