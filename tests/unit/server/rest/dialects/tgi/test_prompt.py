"""The plain `/generate`: its tokens and their times."""

from typing import Any

import orjson

from inferstream.server.rest.dialects.tgi.prompt import PromptFormat
from inferstream.text.reader import TextReader

from .test_formats import response_of


def test_a_prompt_has_the_time_to_its_first_token_once() -> None:
    first, second, third = written_prompt(PromptFormat(), "a", "b", "c")
    assert [*first] == ["token", "token_id", "prefill_time_ms"]
    assert [*second] == [*third] == ["token", "token_id", "step_ms"]
    assert [event["token"] for event in (first, second, third)] == ["a", "b", "c"]


def written_prompt(format: PromptFormat, *items: str) -> list[dict[str, Any]]:
    reader = TextReader()
    events = b"".join(format.piece(0, response_of(item).accept(reader), reader) for item in items)
    events += format.last(0, reader.end(), reader)
    assert format.closing([reader]) == b"data: [DONE]\n\n"
    return [orjson.loads(event.removeprefix(b"data: ")) for event in events.split(b"\n\n") if event]
