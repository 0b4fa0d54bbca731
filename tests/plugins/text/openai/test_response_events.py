import json

import pytest

from inferstream.errors import InferenceFailed, InferstreamError, InvalidRequest, Overloaded
from inferstream.plugins.text.openai.response_events import ResponseFormat
from inferstream.plugins.text.reader import TextReader, TokenLogprob
from tests.plugins.text.openai.test_errors import limited

DOCUMENT = {"id": "resp_i", "status": "in_progress", "output": [], "usage": None}
TEXT = "response.output_text"
ARGUMENTS = "response.function_call_arguments"
BEGINNING = ["response.created", "response.in_progress"]
OPENING = ["response.output_item.added", "response.content_part.added"]
ENDING = [f"{TEXT}.done", "response.content_part.done", "response.output_item.done"]


class Writing:
    """A stream of pieces, and the events that it becomes."""

    def __init__(self) -> None:
        self.format = ResponseFormat("i", DOCUMENT)
        self.reader = TextReader()
        self.events: list[dict] = []

    def take(self, written: bytes) -> None:
        for event in written.decode().split("\n\n")[:-1]:
            name, data = event.split("\n")
            document = json.loads(data.removeprefix("data: "))
            assert name == f"event: {document['type']}"
            self.events.append(document)

    def piece(self, text: str = "", *calls: dict, logprob: float | None = None) -> None:
        self.reader.tokens += 1
        self.reader.tool_calls += calls
        if logprob is not None:
            self.reader.logprobs.append(TokenLogprob(text, logprob, {}))
        self.take(self.format.piece(0, text, self.reader))

    def end(self, text: str = "", reason: str = "stop") -> dict:
        self.reader.finish_reason = reason
        self.take(self.format.last(0, text, self.reader))
        self.take(self.format.closing([self.reader]))
        return self.events[-1]["response"]

    def fail(self, error: InferstreamError) -> list[dict]:
        self.take(self.format.failure(error))
        return self.events[-2:]

    def types(self) -> list[str]:
        assert [event["sequence_number"] for event in self.events] == list(range(len(self.events)))
        return [event["type"] for event in self.events]


@pytest.fixture
def writing() -> Writing:
    return Writing()


def call(index: int, arguments: str = "", **named: object) -> dict:
    return {"index": index, **named, "function": {"name": f"f{index}", "arguments": arguments}}


def test_first_chunk_opens_and_end_closes_items(writing: Writing):
    for text in ("a", "", 'b"\n'):
        writing.piece(text)
    response = writing.end("c")
    assert writing.types() == [*BEGINNING, *OPENING, *[f"{TEXT}.delta"] * 3, *ENDING, "response.completed"]
    deltas = [event["delta"] for event in writing.events if event["type"] == f"{TEXT}.delta"]
    assert deltas == ["a", 'b"\n', "c"]
    assert response["output"] == [
        {
            "id": "msg_i_0",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": 'ab"\nc', "annotations": [], "logprobs": []}],
        }
    ]


def test_first_delta_has_same_format_as_others(writing: Writing):
    writing.piece("a")
    writing.piece("a")
    first, second = writing.events[-2:]
    assert {**first, "sequence_number": 5} == second
    assert {**second, "logprobs": None} == {
        "type": f"{TEXT}.delta",
        "item_id": "msg_i_0",
        "output_index": 0,
        "content_index": 0,
        "delta": "a",
        "logprobs": None,
        "sequence_number": 5,
    }


def test_response_starts_before_first_text(writing: Writing):
    writing.piece()
    assert writing.types() == BEGINNING


def test_response_without_text_has_empty_message(writing: Writing):
    writing.end()
    assert writing.types() == [*BEGINNING, *OPENING, *ENDING, "response.completed"]


def test_log_probabilities_are_in_deltas_and_in_final_event(writing: Writing):
    writing.piece("a", logprob=-1.0)
    writing.piece("b", logprob=-2.0)
    part = writing.end()["output"][0]["content"][0]
    deltas = [event["logprobs"] for event in writing.events if event["type"] == f"{TEXT}.delta"]
    assert [[each["logprob"] for each in found] for found in deltas] == [[-1.0], [-2.0]]
    assert [each["token"] for each in part["logprobs"]] == ["a", "b"]


def test_message_ends_at_call_and_another_can_follow(writing: Writing):
    writing.piece("a", call(0, id="c"))
    writing.piece("", call(0, "{}"))
    writing.piece("b")
    output = writing.end(reason="tool_calls")["output"]
    assert writing.types() == [
        *BEGINNING,
        *OPENING,
        f"{TEXT}.delta",
        *ENDING,
        "response.output_item.added",
        f"{ARGUMENTS}.delta",
        *OPENING,
        f"{TEXT}.delta",
        f"{ARGUMENTS}.done",
        "response.output_item.done",
        *ENDING,
        "response.completed",
    ]
    assert [item["type"] for item in output] == ["message", "function_call", "message"]
    assert output[1] == {
        "id": "fc_i_1",
        "type": "function_call",
        "status": "completed",
        "call_id": "c",
        "name": "f0",
        "arguments": "{}",
    }


SUMMARY = {"type": "summary_text", "text": "six by seven"}
THOUGHT = {"type": "reasoning_text", "text": "six by seven"}


@pytest.mark.parametrize(
    ("summary", "part", "kind", "field", "content"),
    [
        ("auto", "reasoning_summary_part", "reasoning_summary_text", "summary", SUMMARY),
        (None, "content_part", "reasoning_text", "content", THOUGHT),
    ],
)
def test_reasoning_item_precedes_message(summary, part: str, kind: str, field: str, content: dict):
    writing = Writing()
    writing.format = ResponseFormat("i", {**DOCUMENT, "reasoning": {"summary": summary}})
    writing.reader.reasoning = "six by"
    writing.piece("", logprob=-1.0)
    writing.reader.reasoning = " seven"
    writing.piece("")
    writing.piece("42", logprob=-0.5)
    reasoning, message = writing.end()["output"]
    added = ["response.output_item.added", f"response.{part}.added"]
    ended = [f"response.{kind}.done", f"response.{part}.done", "response.output_item.done"]
    assert writing.types()[2 : 2 + 7] == [*added, *[f"response.{kind}.delta"] * 2, *ended]
    assert reasoning == {
        "id": "rs_i_0",
        "type": "reasoning",
        "status": "completed",
        "summary": [],
        field: [content],
    }
    assert message["content"][0]["text"] == "42"
    assert [each["token"] for each in message["content"][0]["logprobs"]] == ["42"]
    deltas = [event for event in writing.events if event["type"] == f"response.{kind}.delta"]
    assert [(each["delta"], each[f"{field}_index"], each["item_id"]) for each in deltas] == [
        ("six by", 0, "rs_i_0"),
        (" seven", 0, "rs_i_0"),
    ]


def test_response_ending_in_reasoning_has_no_other_items():
    reader, format = TextReader(), ResponseFormat("i", {**DOCUMENT, "reasoning": {"summary": None}})
    reader.reasoning, reader.finish_reason = "six by", "length"
    [item] = json.loads(format.whole([""], [reader]))["output"]
    assert (item["type"], item["status"]) == ("reasoning", "incomplete")


@pytest.mark.parametrize(
    ("reason", "why"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_truncated_text_is_incomplete(writing: Writing, reason: str, why: str):
    writing.piece("a")
    response = writing.end(reason=reason)
    assert writing.types()[-1] == "response.incomplete"
    assert response["status"] == response["output"][0]["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": why}
    assert response["completed_at"] is None


def test_only_last_item_of_truncated_response_is_incomplete(writing: Writing):
    writing.piece("", call(0, id="c"), call(1, id="d"))
    assert [item["status"] for item in writing.end(reason="length")["output"]] == ["completed", "incomplete"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InferenceFailed("broke"), "server_error"),
        (Overloaded("full"), "rate_limit_exceeded"),
        (limited(), "rate_limit_exceeded"),
        (InvalidRequest("wrong"), "invalid_prompt"),
    ],
)
def test_failure_is_failed_response_with_error(writing: Writing, error: InferstreamError, code: str):
    writing.piece("a")
    failed, last = writing.fail(error)
    assert (failed["type"], last["type"]) == ("response.failed", "error")
    assert failed["response"]["error"] == {"code": code, "message": error.message}
    assert failed["response"]["output"][0]["content"][0]["text"] == "a"
    assert last["error"]["message"] == last["message"] == error.message
    writing.types()


def test_failure_before_first_chunk_starts_response(writing: Writing):
    writing.fail(InferenceFailed("broke"))
    assert writing.types() == [*BEGINNING, "response.failed", "error"]


def test_gathered_response_has_output_of_stream(writing: Writing):
    writing.piece("a", logprob=-1.0)
    writing.piece("", call(0, "{", id="c"), call(1, "[]", id="d"))
    writing.piece("", call(0, "}"))
    streamed = writing.end()
    reader = TextReader()
    reader.finish_reason = "stop"
    reader.tokens = 3
    reader.logprobs.append(TokenLogprob("a", -1.0, {}))
    reader.tool_calls += [call(0, "{", id="c"), call(1, "[]", id="d"), call(0, "}")]
    whole = json.loads(ResponseFormat("i", DOCUMENT).whole(["a"], [reader]))
    assert whole["output"] == streamed["output"]
    assert whole["usage"] == streamed["usage"]
    assert whole["usage"]["output_tokens"] == 3
