"""What TGI's dialect makes of parameters, responses and errors."""

from types import SimpleNamespace
from typing import Any

import orjson

from inferstream.dataplane.outputs import Finish
from inferstream.server.rest.dialects.tgi.formats import TgiFormat
from inferstream.server.rest.dialects.tgi.prompt import PromptFormat
from inferstream.text.reader import TextReader
from inferstream.tokens import Token, Usage
from inferstream.types import InferenceRequest

response_of = Finish("model", None, None).of(SimpleNamespace(current=InferenceRequest(inputs=[])))


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
    for item in items:
        text = response_of(item).accept(reader)
        if reader.finish_reason is None:
            events += format.piece(0, text, reader)
        else:
            return told(events + format.last(0, text, reader))
    return told(events + format.last(0, reader.end(), reader))


def test_tokens_wait_for_their_text_and_keep_their_order() -> None:
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


def test_a_text_that_is_held_at_the_end_comes_with_its_token() -> None:
    events = written(tgi(), TextReader(["stop"]), Token("a", 1), Token("st", 2))
    assert [(event["token"]["id"], event["token"]["text"]) for event in events] == [(1, "a"), (2, "st")]
    assert events[-1]["generated_text"] == "ast"
    assert not events[-1]["token"]["special"]


def test_a_model_that_yields_nothing_has_an_end_token() -> None:
    assert written(tgi(prompt="p"), TextReader()) == [
        {
            "index": 1,
            "token": {"id": 0, "text": "", "logprob": 0.0, "special": True},
            "generated_text": "p",
            "details": {"finish_reason": "eos_token", "generated_tokens": 0, "input_length": 0, "seed": None},
        }
    ]


def test_the_counts_of_the_model_are_told() -> None:
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


def test_the_most_probable_sequence_is_the_best() -> None:
    format, readers = tgi(texts=2, prompt="p"), [TextReader(with_logprobs=True) for _ in range(2)]
    for index, logprob in enumerate((-2.0, -1.0)):
        token = response_of(Token(f"text {index}", 1, logprob))
        format.collect(index, token.accept(readers[index]), readers[index])
    found = orjson.loads(format.whole(["text 0", "text 1"], readers))
    assert found["generated_text"] == "ptext 1"
    (other,) = found["details"]["best_of_sequences"]
    assert (other["generated_text"], other["tokens"][0]["logprob"]) == ("ptext 0", -2.0)
