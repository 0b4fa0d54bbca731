import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream import InferenceResponse, Token, Usage
from inferstream.errors import InvalidOutput
from inferstream.plugins.text.reader import LEAST_LOGPROB, TextReader
from inferstream.types import ResponseOutput
from tests.plugins.text.responses import responses_of

CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def read(items, **options):
    """The pieces of a text until its end, and the reader."""
    reader = TextReader(**options)
    pieces = []
    for response in responses_of(*items):
        pieces.append(response.accept(reader))
        if reader.finish_reason is not None:
            return pieces, reader
    return [*pieces, reader.end()], reader


def test_text_joins_response_texts():
    pieces, reader = read(["a", "", "b"])
    assert pieces == ["a", "", "b", ""]
    assert (reader.finish_reason, reader.tokens, reader.completion_count) == ("stop", 3, 3)


def test_characters_are_not_split():
    smile = "é😀".encode()
    pieces, _ = read([smile[index : index + 1] for index in range(len(smile))])
    assert "".join(pieces) == "é😀"
    assert all("�" not in piece for piece in pieces)


def test_invalid_bytes_are_replaced_at_end():
    assert "".join(read([b"a\xf0\x9f"])[0]) == "a�"


def test_text_after_bytes_keeps_order():
    assert "".join(read([b"\xc3", "x"])[0]) == "�x"


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (["a\ud83d", "\ude00b"], "a😀b"),
        (["a\ud83d\ude00", Token("b\ud83d"), "", "\ude00"], "a😀b😀"),
        (["\ud83dé", "\udc00", "c"], "�é�c"),
        (["a", "\ud83d"], "a�"),
        (["\ud83d", b"\xc3", b"\xa9"], "é�"),
    ],
)
def test_surrogate_halves_are_joined_or_replaced(items, text):
    pieces, reader = read(items)
    assert "".join(pieces) == text
    assert reader.tokens == len(items)


def test_stop_string_ends_text_before_it():
    pieces, reader = read(["one", " tw", "o th", "ree"], stop=("two",))
    assert "".join(pieces) == "one "
    assert reader.finish_reason == "stop"


def test_possible_stop_string_prefix_is_held_back():
    pieces, _ = read(["a EN", "D b", " E"], stop=("END.",))
    assert pieces == ["a ", "END b", " ", "E"]


def test_earliest_stop_string_wins():
    assert "".join(read(["xaybz"], stop=("b", "ay"))[0]) == "x"


@given(
    st.text("ab", max_size=30),
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    st.data(),
)
def test_chunking_does_not_affect_stop_strings(text, stop, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    items = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    found = [text.find(each) for each in stop if each in text]
    expected = text[: min(found)] if found else text
    # An earlier end of a stop string may be seen before an earlier beginning of a longer one.
    pieces, _ = read(items, stop=tuple(stop))
    whole = "".join(pieces)
    assert text.startswith(whole)
    assert not any(each in whole for each in stop)
    assert len(whole) >= len(expected)


def test_text_ends_at_token_limit():
    pieces, reader = read(["a", "b", "c"], max_tokens=2)
    assert pieces == ["a", "b"]
    assert reader.finish_reason == "length"


def test_finish_reason_of_model_precedes_limit():
    _, reader = read(["a", Token("b", finish_reason="content_filter")], max_tokens=2)
    assert reader.finish_reason == "content_filter"


def test_model_token_counts_override_item_count():
    _, reader = read(["a", Token("b", finish_reason="stop", usage=Usage(5, 9))])
    assert (reader.prompt_tokens, reader.completion_count) == (5, 9)


def test_held_back_text_is_flushed_at_model_end():
    pieces, _ = read(["a", Token("EN", finish_reason="length")], stop=("END",))
    assert "".join(pieces) == "aEN"


def test_log_probabilities_and_tool_calls_are_kept():
    _, reader = read([Token("a", 3, -0.25, top_logprobs={"a": -0.25}, tool_calls=[CALL])], with_logprobs=True)
    assert reader.token_id == 3
    assert [tuple(each) for each in reader.logprobs] == [("a", -0.25, {"a": -0.25})]
    assert reader.tool_calls == [CALL]


def output(name, datatype, data):
    return ResponseOutput(name=name, datatype=datatype, shape=[len(data)], data=data)


def test_first_text_output_is_read():
    response = InferenceResponse(
        model_name="m", outputs=[output("score", "FP32", [1.0]), output("text", "BYTES", ["a", "b"])]
    )
    assert response.accept(TextReader()) == "ab"


def test_response_without_outputs_adds_nothing():
    reader = TextReader()
    assert InferenceResponse(model_name="m", outputs=[]).accept(reader) == ""
    assert reader.tokens == 0


def test_response_without_text_is_an_error():
    with pytest.raises(InvalidOutput, match='"score" of FP32, not a text'):
        InferenceResponse(model_name="m", outputs=[output("score", "FP32", [1.0])]).accept(TextReader())


def test_log_probabilities_are_finite():
    token = Token("a", logprob=-math.inf, top_logprobs={"a": -math.inf, "b": -0.5})
    _, reader = read([token], with_logprobs=True)
    assert reader.logprobs == [("a", LEAST_LOGPROB, {"a": LEAST_LOGPROB, "b": -0.5})]
