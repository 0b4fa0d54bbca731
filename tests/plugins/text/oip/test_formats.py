"""What the text generation of the protocol makes of responses."""

from typing import Any

import orjson

from inferstream import Token
from inferstream.plugins.text.oip.formats import OipFormat
from inferstream.plugins.text.reader import TextReader
from tests.plugins.text.responses import responses_of

NAMES = {"model_name": "m", "model_version": "1"}


def written(details: bool, reader: TextReader, *items: object) -> list[Any]:
    """Every event of these items as their JSON."""
    format, events = OipFormat(NAMES, details), b""
    for response in responses_of(*items):
        text = response.accept(reader)
        if reader.finish_reason is not None:
            events += format.last(0, text, reader)
            break
        events += format.piece(0, text, reader)
    else:
        events += format.last(0, reader.end(), reader)
    assert format.closing([reader]) == b""
    return [orjson.loads(event.removeprefix(b"data: ")) for event in events.split(b"\n\n") if event]


def token(id: int, text: str, logprob: float = 0.0, special: bool = False) -> dict[str, Any]:
    return {"id": id, "text": text, "logprob": logprob, "special": special}


def test_events_have_text_and_names_of_model() -> None:
    assert written(False, TextReader(), Token("a", 1), "", Token(" b", 2)) == [
        {"text_output": "a", **NAMES},
        {"text_output": " b", **NAMES},
    ]


def test_last_event_has_details_with_all_tokens() -> None:
    first, last = written(True, TextReader(max_tokens=2), Token("a", 1), Token(" b", 2), Token("c", 3))
    assert first == {"text_output": "a", **NAMES}
    assert last == {
        "text_output": " b",
        **NAMES,
        "details": {
            "finish_reason": "length",
            "logprobs": [token(1, "a"), token(2, " b")],
            "token": token(2, " b"),
        },
    }


def test_end_token_is_special() -> None:
    (event,) = written(True, TextReader(with_logprobs=True), Token("", 9, -0.25, finish_reason="stop"))
    assert event["details"]["token"] == token(9, "", -0.25, special=True)
    assert event["details"]["finish_reason"] == "eos_token"


def test_stream_without_responses_has_details_of_an_end_token() -> None:
    assert written(False, TextReader()) == []
    (event,) = written(True, TextReader())
    assert event["text_output"] == ""
    assert event["details"] == {
        "finish_reason": "eos_token",
        "logprobs": [],
        "token": token(0, "", special=True),
    }
