from typing import Any

import pytest

from inferstream.plugins.text.calls.formats import create_parser
from inferstream.plugins.text.calls.reader import CallReader
from tests.plugins.text.responses import responses_of

CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


def read(
    *items: str | bytes, parallel: bool = True, thoughts: bool = True, **options: Any
) -> tuple[str, CallReader]:
    """The text until its end, and the reader."""
    parser = create_parser("hermes", "think", [])
    assert parser is not None
    reader = CallReader(parser, parallel, thoughts, **options)
    text = ""
    for response in responses_of(*items):
        text += response.accept(reader)
        if reader.finish_reason is not None:
            return text, reader
    return text + reader.end(), reader


def test_text_without_calls_and_reasoning() -> None:
    text, reader = read("<think>hm</think>yes", CALL, "no", CALL)
    assert (text, reader.reasoning, reader.finish_reason) == ("yesno", "hm", "stop")
    calls = reader.tool_calls
    assert [call["function"] for call in calls] == [{"name": "f", "arguments": "{}"}] * 2
    assert all(call["id"].isalnum() and len(call["id"]) == 9 for call in calls)


def test_held_back_text_is_flushed_at_end() -> None:
    assert read("a<tool_c")[0] == "a<tool_c"
    assert read("a", "<tool_c", max_tokens=2)[0] == "a<tool_c"
    assert read("a<tool_cSTOP", stop=("STOP",))[0] == "a<tool_c"


STOPS = [
    # the text, what is left of it, its reasoning, the stop string that ended it, the calls
    ("<think>a STOP b</think>yes STOP no", "yes ", "a STOP b", "STOP", 0),
    ("<think>a ST</think>OP yes", "OP yes", "a ST", "", 0),
    (f"yes STOP {CALL}", "yes ", "", "STOP", 0),
    (f"yes ST{CALL}OP", "yes STOP", "", "", 1),
    (f"yes {CALL} STOP no", "yes ", "", "STOP", 1),
    (CALL.replace("{}", '{"a": "STOP"}') + "yes STOP", "yes ", "", "STOP", 1),
    ("<think>STOP", "", "STOP", "", 0),
    ("yes ST", "yes ST", "", "", 0),
]


@pytest.mark.parametrize(("whole", "left", "thought", "stopped", "calls"), STOPS)
def test_stop_string_ends_answer_for_every_split(
    whole: str, left: str, thought: str, stopped: str, calls: int
) -> None:
    for pieces in ([whole], [*whole], *([whole[:at], whole[at:]] for at in range(len(whole)))):
        text, reader = read(*pieces, stop=("STOP",))
        assert (text, reader.reasoning, reader.stopped) == (left, thought, stopped), pieces
        assert len(reader.tool_calls) == calls
        assert reader.finish_reason == "stop"


def test_stop_string_applies_at_token_limit() -> None:
    text, reader = read("<think>STOP</think>", "yes STOP", stop=("STOP",), max_tokens=2)
    assert (text, reader.finish_reason, reader.stopped) == ("yes ", "stop", "STOP")
    text, reader = read("<think>STOP</think>", "yes ST", stop=("STOP",), max_tokens=2)
    assert (text, reader.finish_reason, reader.stopped) == ("yes ST", "length", "")


def test_character_can_be_split_within_reasoning_and_calls() -> None:
    encoded = ("<think>ü</think>é" + CALL.replace("{}", '{"a": "日"}')).encode()
    text, reader = read(*(encoded[at : at + 1] for at in range(len(encoded))))
    assert (text, reader.reasoning) == ("é", "ü")
    assert reader.tool_calls[0]["function"]["arguments"] == '{"a": "日"}'


def test_first_call_ends_text_without_parallel_calls() -> None:
    _, reader = read(CALL, CALL, "more", parallel=False)
    assert reader.finish_reason == "tool_calls"
    assert len(reader.tool_calls) == 1


def test_unrequested_reasoning_is_dropped() -> None:
    text, reader = read("<think>hm</think>yes", thoughts=False)
    assert (text, reader.reasoning) == ("yes", "")
