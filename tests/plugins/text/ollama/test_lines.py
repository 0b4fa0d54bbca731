"""Lines of a text: what they hold, and what its end says."""

import json
from typing import Any

import pytest

from inferstream.errors import InferstreamError
from inferstream.plugins.text.calls.deltas import CallDeltas
from inferstream.plugins.text.ollama.lines import LineFormat, timestamp
from inferstream.plugins.text.reader import TextReader


def lines(*texts: str, chat: bool = True, calls: list[dict] | None = None) -> list[dict[str, Any]]:
    format, reader = LineFormat("model", chat=chat), TextReader()
    written = b"".join(format.piece(0, text, reader) for text in texts)
    deltas = CallDeltas(reader.tool_calls)
    for call in calls or []:
        deltas.add(call)
    written += format.last(0, reader.end(), reader) + format.closing([reader])
    return [json.loads(line) for line in written.splitlines()]


@pytest.mark.parametrize("text", ['"', "\\", "\n\r", "\u0000", "\u0085", "a\u2028b\u2029", "🎉", "a" * 1000])
@pytest.mark.parametrize("chat", [True, False])
def test_any_text_is_a_line(text: str, chat: bool) -> None:
    *found, last = lines("first", text, "", text, chat=chat)
    written = [line["message"]["content"] if chat else line["response"] for line in found]
    assert written == ["first", text, text]
    assert [line["done"] for line in [*found, last]] == [False] * 3 + [True]


def test_empty_text_has_only_a_last_line() -> None:
    [last] = lines()
    assert last["done_reason"] == "stop"
    assert last["total_duration"] >= last["prompt_eval_duration"] >= 0


def test_calls_follow_text_unsplit() -> None:
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x":'}},
        {"index": 0, "function": {"arguments": "1}"}},
    ]
    text, call, last = lines("a", calls=pieces)
    assert text["message"]["content"] == "a"
    assert call["message"]["tool_calls"] == [
        {"id": "a", "function": {"index": 0, "name": "f", "arguments": {"x": 1}}}
    ]
    assert last["done"]


def test_failure_is_a_line() -> None:
    line = LineFormat("model", chat=True).failure(InferstreamError("why"))
    assert line == b'{"error":"why"}\n'


def test_time_is_utc() -> None:
    assert timestamp(0.5) == "1970-01-01T00:00:00.500000Z"
    assert timestamp().endswith("Z")
