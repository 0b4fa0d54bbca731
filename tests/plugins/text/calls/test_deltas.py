"""Calls that a model gives itself, in the shapes of the libraries that make them."""

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageFunctionToolCall
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall
from pydantic import BaseModel

from inferstream import Token
from inferstream.errors import InvalidOutput
from inferstream.plugins.text.reader import TextReader
from tests.plugins.text.responses import responses_of


class Function(BaseModel):
    name: str
    arguments: dict[str, Any]


@dataclass(slots=True)
class Call:
    name: str
    args: dict[str, Any]


def named(arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {**more, "function": {"name": "f", "arguments": arguments}}


A = [("f", {"a": 1})]
TWO = [("f", {}), ("g", {})]
PIECES = [{"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a"'}}]
PIECES += [{"index": 0, "function": {"arguments": ": 1}"}}]

ROWS: dict[str, tuple[list[list[Any]], list[Any]]] = {
    "no index on the first piece alone": ([[PIECES[0] | {"index": None}], [PIECES[1]]], A),
    "half of a character": ([[named({"a": "\ud83d"})]], [("f", {"a": "�"})]),
    "an index, an id and a type": ([[named(index=0, id="c", type="function")]], [("f", {})]),
    "no index": ([[named(id="c")]], [("f", {})]),
    "no id": ([[named(index=0)]], [("f", {})]),
    "neither": ([[named('{"a": 1}')]], A),
    "no arguments": ([[{"function": {"name": "f"}}]], [("f", {})]),
    "empty arguments": ([[named("")]], [("f", {})]),
    "arguments that are null": ([[named(None)]], [("f", {})]),
    "an object": ([[named({"a": 1})]], A),
    "an empty object": ([[named({})]], [("f", {})]),
    "no function around it": ([[{"name": "f", "arguments": {"a": 1}}]], A),
    "LangChain's": ([[{"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"}]], A),
    "Anthropic's": ([[{"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}]], A),
    "Ollama's": ([[{"function": {"index": 0, "name": "f", "arguments": {"a": 1}}}]], A),
    "two without an index": ([[{"name": "f"}, {"name": "g"}]], TWO),
    "two without an index, one by one": ([[{"name": "f"}], [{"name": "g"}]], TWO),
    "two of one index": ([[named(index=0, id="c"), {"index": 0, "id": "d", "name": "g"}]], TWO),
    "pieces in one token": ([PIECES], A),
    "pieces in two": ([PIECES[:1], PIECES[1:]], A),
    "pieces that repeat id and name": (
        [[named('{"a"', index=0, id="c")], [named(": 1}", index=0, id="c")]],
        A,
    ),
    "pieces without an index": ([[{"id": "c", "function": {"name": "f"}}], [named('{"a": 1}', id="c")]], A),
    "pieces that only have arguments": ([[{"name": "f"}], [{"function": {"arguments": '{"a": 1}'}}]], A),
    "an index that begins at one": ([[named('{"a": 1}', index=1, id="c")]], A),
    "pydantic": ([[SimpleNamespace(id="c", function=Function(name="f", arguments={"a": 1}))]], A),
    "a dataclass": ([[Call("f", {"a": 1})]], A),
    "objects": ([[SimpleNamespace(function=SimpleNamespace(name="f", arguments='{"a": 1}'))]], A),
    "OpenAI's": (
        [[ChatCompletionMessageFunctionToolCall.model_validate(named('{"a": 1}', id="c", type="function"))]],
        A,
    ),
    "OpenAI's deltas": ([[ChoiceDeltaToolCall.model_validate(piece)] for piece in PIECES], A),
}


def deltas(tokens: list[list[Any]], reason: str | None = None) -> list[list[dict[str, Any]]]:
    """The deltas of each response, and of the end."""
    reader, taken = TextReader(), []
    for response in responses_of(*(Token(tool_calls=calls, finish_reason=reason) for calls in tokens)):
        response.accept(reader)
        taken.append([*reader.tool_calls])
        reader.tool_calls.clear()
    reader.end()
    return [*taken, [*reader.tool_calls]]


@pytest.mark.parametrize(("tokens", "right"), ROWS.values(), ids=ROWS)
def test_each_format_is_a_call(tokens: list[list[Any]], right: list[Any]) -> None:
    chunks = deltas(tokens)
    for chunk in chunks:
        assert len({delta["index"] for delta in chunk}) == len(chunk)
    pieces = [delta for chunk in chunks for delta in chunk]
    firsts = [piece for piece in pieces if "id" in piece]
    assert [piece["index"] for piece in firsts] == [*range(len(right))]
    assert all(piece["id"] and piece["type"] == "function" for piece in firsts)
    assert all(type(piece["function"]["arguments"]) is str for piece in pieces)
    found = [(piece["function"]["name"], "") for piece in firsts]
    for piece in pieces:
        name, arguments = found[piece["index"]]
        found[piece["index"]] = (name, arguments + piece["function"]["arguments"])
    assert [(name, json.loads(arguments)) for name, arguments in found] == right


def test_finish_reason_of_model_ends_calls() -> None:
    assert deltas([[{"name": "f"}]], "tool_calls")[0][0]["function"]["arguments"] == "{}"
    assert (
        deltas([[{"name": "f"}]], "length")[0][0]["function"]["arguments"] == ""
    )  # it may have been cut off


@pytest.mark.parametrize("calls", [["f"], [7], {"name": "f"}, [{"function": "f"}]])
def test_malformed_call_is_model_failure(calls: Any) -> None:
    with pytest.raises(InvalidOutput, match="not an object with a name"):
        deltas([calls])


def test_object_without_fields_is_refused() -> None:
    with pytest.raises(InvalidOutput, match="cannot be written as JSON"):
        deltas([[object()]])
