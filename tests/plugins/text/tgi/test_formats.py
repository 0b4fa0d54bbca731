"""What TGI's dialect makes of parameters, responses and errors."""

from typing import Any

import orjson

from inferstream import Token, Usage
from inferstream.plugins.text.reader import TextReader
from inferstream.plugins.text.tgi.formats import TgiFormat
from inferstream.plugins.text.tgi.prompt import PromptFormat
from tests.plugins.text.responses import responses_of


def tgi(**options: Any) -> TgiFormat:
    return TgiFormat(
        options.pop("texts", 1),
        **{"details": True, "prompt": "", "seed": None, "listed": False, **options},
    )


def told(events: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(event.removeprefix(b"data:")) for event in events.split(b"\n\n") if event]


def written(format: TgiFormat | PromptFormat, reader: TextReader, *items: object) -> list[Any]:
    """Every event of these items as their JSON."""
    events = b""
    for response in responses_of(*items):
        text = response.accept(reader)
        if reader.finish_reason is None:
            events += format.piece(0, text, reader)
        else:
            return told(events + format.last(0, text, reader))
    return told(events + format.last(0, reader.end(), reader))


def test_tokens_wait_for_text_and_keep_order() -> None:
    reader = TextReader(["stop"])
    events = written(tgi(), reader, Token("a s", 1), Token("t", 2), Token("o", 3), Token("xy", 4))
    assert [(event["token"]["id"], event["token"]["text"]) for event in events] == [
        (1, "a "),
        (2, ""),
        (3, ""),
        (4, "stoxy"),
        (0, ""),
    ]
    assert [event["index"] for event in events] == [1, 2, 3, 4, 5]
    assert events[-1]["generated_text"] == "a stoxy"
    assert events[-1]["token"]["special"]


def test_held_back_text_is_sent_with_its_token() -> None:
    events = written(tgi(), TextReader(["stop"]), Token("a", 1), Token("st", 2))
    assert [(event["token"]["id"], event["token"]["text"]) for event in events] == [(1, "a"), (2, "st")]
    assert events[-1]["generated_text"] == "ast"
    assert not events[-1]["token"]["special"]


def test_empty_stream_has_an_end_token() -> None:
    assert written(tgi(prompt="p"), TextReader()) == [
        {
            "index": 1,
            "token": {"id": 0, "text": "", "logprob": 0.0, "special": True},
            "generated_text": "p",
            "details": {"finish_reason": "eos_token", "generated_tokens": 0, "input_length": 0, "seed": None},
        }
    ]


def test_model_token_counts_are_returned() -> None:
    token = Token("a", 1, -0.25, top_logprobs={"b": -1.0}, finish_reason="length", usage=Usage(4, 9))
    (event,) = written(tgi(seed=3), TextReader(with_logprobs=True), token)
    assert event["token"] == {"id": 1, "text": "a", "logprob": -0.25, "special": False}
    assert event["top_tokens"] == [{"id": 0, "text": "b", "logprob": -1.0, "special": False}]
    assert event["details"] == {
        "finish_reason": "length",
        "generated_tokens": 9,
        "input_length": 4,
        "seed": 3,
    }


def test_most_probable_sequence_is_the_best() -> None:
    format, readers = tgi(texts=2, prompt="p"), [TextReader(with_logprobs=True) for _ in range(2)]
    tokens = responses_of(Token("text 0", 1, -2.0), Token("text 1", 1, -1.0))
    for index, token in enumerate(tokens):
        format.collect(index, token.accept(readers[index]), readers[index])
    found = orjson.loads(format.whole(["text 0", "text 1"], readers))
    assert found["generated_text"] == "ptext 1"
    (other,) = found["details"]["best_of_sequences"]
    assert (other["generated_text"], other["tokens"][0]["logprob"]) == ("ptext 0", -2.0)
