"""What TGI's dialect makes of parameters, responses and errors."""

from typing import Any

import orjson
import pytest

from inferstream.dataplane.outputs import Finish
from inferstream.errors import (
    DeadlineExceeded,
    Draining,
    InferenceFailed,
    InferstreamError,
    InvalidRequest,
    ModelError,
    ModelNotFound,
    ModelNotReady,
    Overloaded,
    Unsupported,
    WorkerLost,
)
from inferstream.server.rest.dialects.tgi.errors import error_object, error_status
from inferstream.server.rest.dialects.tgi.formats import TgiFormat
from inferstream.server.rest.dialects.tgi.parameters import MOST_STOPS, Asked, read_parameters
from inferstream.server.rest.dialects.tgi.prompt import PromptFormat
from inferstream.server.rest.dialects.tgi.tokens import MOST_HELD, DecidedTokens
from inferstream.settings import ModelSettings
from inferstream.signature import Signature
from inferstream.text.fields import Fields
from inferstream.text.interface import TextInterface, text_interface
from inferstream.text.reader import TextReader
from inferstream.text.token import Token, Usage
from inferstream.types import InferenceRequest, MetadataTensor

response_of = Finish("model", None, None).of(InferenceRequest(inputs=[]))


def interface(*, logprobs: bool = True, formats: bool = False) -> TextInterface:
    names = ["prompt", "response_format"] if formats else ["prompt"]
    signature = Signature(
        inputs=tuple(MetadataTensor(name=name, datatype="BYTES", shape=[1]) for name in names),
        outputs=(MetadataTensor(name="text", datatype="BYTES", shape=[1]),),
        streams=True,
        logprobs=logprobs,
    )
    found = text_interface(signature, ModelSettings(name="model", implementation="model.Model"))
    assert found is not None
    return found


def read(parameters: object, *, streamed: bool = False, **declared: bool) -> Asked:
    return read_parameters(Fields({"parameters": parameters}), interface(**declared), streamed)


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


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ([], "parameters"),
        ({"temperature": 0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"typical_p": 2}, "typical_p"),
        ({"top_k": 0}, "top_k"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"frequency_penalty": 3}, "frequency_penalty"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"max_new_tokens": 1.5}, "max_new_tokens"),
        ({"seed": -1}, "seed"),
        ({"stop": ["a"] * (MOST_STOPS + 1)}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"do_sample": 1}, "do_sample"),
        ({"decoder_input_details": True}, "decoder_input_details"),
        ({"top_n_tokens": 6}, "top_n_tokens"),
        ({"best_of": 0}, "best_of"),
        ({"best_of": 2, "seed": 1}, "seed"),
        ({"grammar": {"type": "regex", "value": "a"}}, "grammar.type"),
        ({"grammar": {"value": {}}}, "grammar.type"),
        ({"grammar": {"type": "json", "value": "{"}}, "grammar.value"),
        ({"grammar": {"type": "json"}}, "grammar.value"),
    ],
)
def test_a_wrong_parameter_is_refused_by_its_name(parameters: object, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(parameters, formats=True)
    assert refused.value.detail is not None
    path = field if field == "parameters" else f"parameters.{field}"
    assert refused.value.detail[0]["loc"] == [path]


@pytest.mark.parametrize("parameters", [{"top_n_tokens": 1}, {"best_of": 2}])
def test_what_needs_log_probabilities_is_refused_where_the_model_gives_none(parameters: dict) -> None:
    with pytest.raises(InvalidRequest, match="no log probabilities"):
        read(parameters, logprobs=False)


def test_a_stream_has_one_sequence() -> None:
    with pytest.raises(InvalidRequest, match=r"parameters\.best_of: must be 1 for a stream"):
        read({"best_of": 2}, streamed=True)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"streamed": True}, True),
        ({"streamed": False}, False),
        ({"streamed": True, "logprobs": False}, False),
    ],
)
def test_log_probabilities_are_asked_for_where_they_are_shown(options: dict, asked: bool) -> None:
    assert read({}, **options).generation.logprobs is asked
    assert ("logprobs" in read({}, **options).generation.parameters) is asked


def test_parameters_that_the_server_means_otherwise_do_not_reach_the_model() -> None:
    given = {"priority": 3, "timeout": 1, "max_tokens": 5, "logprobs": True, "min_p": 0.1, "adapter_id": "a"}
    found = read({**given, "do_sample": True}).generation.parameters
    assert found == {"min_p": 0.1, "adapter_id": "a", "temperature": 1.0}


def test_a_named_schema_keeps_its_name() -> None:
    named = {"name": "place", "schema": {"type": "object"}}
    found = read({"grammar": {"type": "json_schema", "value": named}}, formats=True).inputs
    assert orjson.loads(found["response_format"][0]) == {"type": "json_schema", "json_schema": named}


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


def test_tokens_without_text_do_not_wait_for_ever() -> None:
    tokens, reader = DecidedTokens(), TextReader()
    found = [len(tokens.decide(response_of("").accept(reader), reader)) for _ in range(MOST_HELD)]
    assert found == [0] * (MOST_HELD - 1) + [MOST_HELD]


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


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("wrong"), 422, "validation"),
        (Unsupported("cannot"), 422, "validation"),
        (ModelNotFound("m"), 404, "validation"),
        (Overloaded("full"), 429, "overloaded"),
        (InferenceFailed("broke"), 424, "generation"),
        (WorkerLost("gone"), 503, "generation"),
        (DeadlineExceeded(), 504, "generation"),
        (ModelNotReady("m"), 503, "unavailable"),
        (Draining(), 503, "unavailable"),
        (ModelError("tea", status_code=418), 418, "validation"),
        (ModelError("tea", status_code=500), 500, "generation"),
    ],
)
def test_errors_have_tgis_statuses_and_types(error: InferstreamError, status: int, kind: str) -> None:
    assert error_status(error) == status
    found = error_object(error)
    assert (found["error"], found["error_type"]) == (error.message, kind)


def test_a_wrong_field_is_located_name_by_name() -> None:
    fault = {"loc": ["parameters.grammar.type", 0], "msg": "is wrong"}
    assert error_object(InvalidRequest("wrong", [fault]))["detail"] == [
        {"type": "value_error", "loc": ["body", "parameters", "grammar", "type", 0], "msg": "is wrong"}
    ]
    assert error_object(InvalidRequest("wrong"))["detail"][0]["loc"] == ["body"]
