"""What the parameters of TGI's clients ask for."""

import orjson
import pytest

from inferstream import ModelSettings
from inferstream.errors import (
    InvalidRequest,
)
from inferstream.ext.runtimes import Signature
from inferstream.plugins.text.fields import Fields
from inferstream.plugins.text.interface import TextInterface, build_text_interface
from inferstream.plugins.text.tgi.parameters import Asked, read_parameters
from inferstream.types import MetadataTensor


def interface(*, logprobs: bool = True, formats: bool = False) -> TextInterface:
    names = ["prompt", "response_format"] if formats else ["prompt"]
    signature = Signature(
        inputs=tuple(MetadataTensor(name=name, datatype="BYTES", shape=[1]) for name in names),
        outputs=(MetadataTensor(name="text", datatype="BYTES", shape=[1]),),
        streams=True,
        logprobs=logprobs,
    )
    found = build_text_interface(signature, ModelSettings(name="model", implementation="model.Model"))
    assert found is not None
    return found


def read(parameters: object, *, streamed: bool = False, **declared: bool) -> Asked:
    return read_parameters(Fields({"parameters": parameters}), interface(**declared), streamed)


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
        ({"stop": ["a"] * (65)}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"do_sample": 1}, "do_sample"),
        ({"decoder_input_details": True}, "decoder_input_details"),
        ({"top_n_tokens": 6}, "top_n_tokens"),
        ({"best_of": 0}, "best_of"),
        ({"best_of": 2, "seed": 1}, "seed"),
        ({"grammar": {"type": "lark", "value": "a"}}, "grammar.type"),
        ({"grammar": {"type": "regex", "value": 1}}, "grammar.value"),
        ({"grammar": {"value": {}}}, "grammar.type"),
        ({"grammar": {"type": "json", "value": "{"}}, "grammar.value"),
        ({"grammar": {"type": "json"}}, "grammar.value"),
    ],
)
def test_invalid_parameter_is_named(parameters: object, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(parameters, formats=True)
    assert refused.value.detail is not None
    path = field if field == "parameters" else f"parameters.{field}"
    assert refused.value.detail[0]["loc"] == [path]


@pytest.mark.parametrize("parameters", [{"top_n_tokens": 1}, {"best_of": 2}])
def test_parameters_needing_log_probabilities_are_refused_without_them(parameters: dict) -> None:
    with pytest.raises(InvalidRequest, match="no log probabilities"):
        read(parameters, logprobs=False)


def test_stream_has_one_sequence() -> None:
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
def test_log_probabilities_are_requested_if_returned(options: dict, asked: bool) -> None:
    assert read({}, **options).generation.logprobs is asked
    assert ("logprobs" in read({}, **options).generation.parameters) is asked


def test_conflicting_parameters_do_not_reach_model() -> None:
    given = {"priority": 3, "timeout": 1, "max_tokens": 5, "logprobs": True, "min_p": 0.1, "adapter_id": "a"}
    found = read({**given, "do_sample": True}).generation.parameters
    assert found == {"min_p": 0.1, "adapter_id": "a", "temperature": 1.0}


def test_regular_expression_is_a_format_for_supporting_models() -> None:
    asked = {"grammar": {"type": "regex", "value": "a+"}}
    found = read(asked, formats=True).inputs
    assert orjson.loads(found["response_format"][0]) == {"type": "regex", "regex": "a+"}
    with pytest.raises(InvalidRequest, match="the model does not write regex"):
        read(asked)


def test_named_schema_keeps_name() -> None:
    named = {"name": "place", "schema": {"type": "object"}}
    found = read({"grammar": {"type": "json_schema", "value": named}}, formats=True).inputs
    assert orjson.loads(found["response_format"][0]) == {"type": "json_schema", "json_schema": named}
