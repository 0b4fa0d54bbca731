"""The plain `/generate`: its tokens and their times."""

from typing import Any

import orjson

from inferstream.plugins.text.reader import TextReader
from inferstream.plugins.text.tgi.prompt import PromptFormat
from tests.plugins.text.responses import responses_of


def test_prefill_time_is_counted_once() -> None:
    first, second, third = written_prompt(PromptFormat(), "a", "b", "c")
    assert [*first] == ["token", "token_id", "prefill_time_ms"]
    assert [*second] == [*third] == ["token", "token_id", "step_ms"]
    assert [event["token"] for event in (first, second, third)] == ["a", "b", "c"]


def written_prompt(format: PromptFormat, *items: str) -> list[dict[str, Any]]:
    reader = TextReader()
    pieces = (response.accept(reader) for response in responses_of(*items))
    events = b"".join(format.piece(0, piece, reader) for piece in pieces)
    events += format.last(0, reader.end(), reader)
    assert format.closing([reader]) == b"data: [DONE]\n\n"
    return [orjson.loads(event.removeprefix(b"data: ")) for event in events.split(b"\n\n") if event]
