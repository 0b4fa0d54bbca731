"""Chunks and whole messages of chat."""

import json
from typing import Any

import pytest

from inferstream import Token
from inferstream.errors import InvalidRequest
from inferstream.plugins.text.fields import Fields
from inferstream.plugins.text.openai.chat import ChatFormat, _requested_logprobs
from inferstream.plugins.text.reader import TextReader
from tests.plugins.text.responses import responses_of

CALL = {"index": 0, "id": "1", "function": {"name": "f", "arguments": "{"}}


def choices(events: bytes) -> list[dict[str, Any]]:
    return [
        choice
        for event in events.decode().split("\n\n")
        if event
        for choice in json.loads(event.removeprefix("data: "))["choices"]
    ]


def streamed(*items: object, choices_asked: int = 1) -> list[dict[str, Any]]:
    format, reader = ChatFormat("i", "m", choices_asked, False), TextReader(with_logprobs=True)
    events = b"".join(format.piece(0, response.accept(reader), reader) for response in responses_of(*items))
    return choices(events + format.last(0, reader.end(), reader))


def test_first_chunk_has_role_and_last_has_finish_reason() -> None:
    chunks = streamed("a", "b")
    assert [chunk["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "a"},
        {"content": "b"},
        {},
    ]
    assert [chunk["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]


def test_each_choice_has_own_role() -> None:
    format = ChatFormat("i", "m", 2, False)
    roles = [choices(format.piece(index, "x", TextReader()))[0] for index in (1, 0)]
    assert [(role["index"], role["delta"]["role"]) for role in roles] == [(1, "assistant"), (0, "assistant")]
    assert len(choices(format.piece(1, "y", TextReader()))) == 1


def test_text_ending_after_calls_has_finish_reason_tool_calls() -> None:
    chunks = streamed(
        Token("", tool_calls=[CALL]), Token("", tool_calls=[{**CALL, "function": {"arguments": "}"}}])
    )
    calls = [call for chunk in chunks for call in chunk["delta"].get("tool_calls", ())]
    assert calls[0] == {**CALL, "type": "function"}
    assert chunks[-1]["finish_reason"] == "tool_calls"


def test_gathered_message_merges_calls_and_omits_empty_text() -> None:
    reader = TextReader()
    calls = [{**CALL, "function": {"name": "f", "arguments": arguments}} for arguments in ("{", "}")]
    for response in responses_of(*(Token("", tool_calls=[call]) for call in calls)):
        response.accept(reader)
    reader.end()
    whole = json.loads(ChatFormat("i", "m", 1, False).whole([""], [reader]))
    (choice,) = whole["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert (whole["object"], whole["id"]) == ("chat.completion", "chatcmpl-i")


def test_log_probabilities_are_sent_once() -> None:
    reader = TextReader(with_logprobs=True)
    format = ChatFormat("i", "m", 1, False)
    told = [
        choice["logprobs"]
        for response in responses_of(Token("a", logprob=-1.0), Token("é", logprob=-2.0))
        for choice in choices(format.piece(0, response.accept(reader), reader))
        if choice["logprobs"]
    ]
    assert [[(each["token"], each["logprob"]) for each in one["content"]] for one in told] == [
        [("a", -1.0)],
        [("é", -2.0)],
    ]
    assert told[1]["content"][0]["bytes"] == [195, 169]


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 3}, 3),
    ],
)
def test_top_logprobs_need_logprobs(fields: dict[str, Any], asked: int | None) -> None:
    assert _requested_logprobs(Fields(fields)) == asked
    with pytest.raises(InvalidRequest, match="top_logprobs: needs logprobs to be true"):
        _requested_logprobs(Fields({"top_logprobs": 3}))
