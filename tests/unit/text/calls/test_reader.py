from types import SimpleNamespace
from typing import Any

from inferstream import InferenceRequest
from inferstream.dataplane.outputs import Finish
from inferstream.text.calls.formats import reading
from inferstream.text.calls.reader import CallReader
from inferstream.text.tools import merged

finish = Finish("m", None, None).of(SimpleNamespace(current=InferenceRequest(inputs=[])))
CALL = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'


def read(*items: str, parallel: bool = True, thoughts: bool = True, **options: Any) -> tuple[str, CallReader]:
    """The text until its end, and the reader."""
    parser = reading("hermes", "think", [])
    assert parser is not None
    reader = CallReader(parser, parallel, thoughts, **options)
    text = ""
    for item in items:
        text += finish(item).accept(reader)
        if reader.finish_reason is not None:
            return text, reader
    return text + reader.end(), reader


def test_a_text_without_its_calls_and_thoughts() -> None:
    text, reader = read("<think>hm</think>yes", CALL, "no", CALL)
    assert (text, reader.reasoning, reader.finish_reason) == ("yesno", "hm", "stop")
    calls = merged(reader.tool_calls)
    assert [call["function"] for call in calls] == [{"name": "f", "arguments": "{}"}] * 2
    assert all(call["id"].isalnum() and len(call["id"]) == 9 for call in calls)


def test_what_is_held_back_is_given_when_the_text_ends() -> None:
    assert read("a<tool_c")[0] == "a<tool_c"
    assert read("a", "<tool_c", max_tokens=2)[0] == "a<tool_c"
    assert read("a<tool_cSTOP", stop=("STOP",))[0] == "a<tool_c"


def test_one_call_ends_the_text_of_a_client_that_takes_one() -> None:
    _, reader = read(CALL, CALL, "more", parallel=False)
    assert reader.finish_reason == "tool_calls"
    assert len(merged(reader.tool_calls)) == 1


def test_thoughts_that_nobody_wants_are_left_out() -> None:
    text, reader = read("<think>hm</think>yes", thoughts=False)
    assert (text, reader.reasoning) == ("yes", "")
