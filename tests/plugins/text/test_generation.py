"""Texts that clients ask for, in any dialect."""

import pytest

from inferstream import MetadataTensor, ModelSettings
from inferstream.errors import InvalidRequest
from inferstream.ext.runtimes import Signature
from inferstream.plugins.text.fields import Fields
from inferstream.plugins.text.generation import SEEDS, Generation, expect_logprobs, read_sampling
from inferstream.plugins.text.interface import TextInterface, build_text_interface


def interface(logprobs: bool = False) -> TextInterface:
    prompt = (MetadataTensor(name="prompt", datatype="BYTES", shape=[1]),)
    made = build_text_interface(
        Signature(prompt, prompt, logprobs=logprobs), ModelSettings(implementation="m.M", name="m")
    )
    assert made is not None
    return made


def test_limits_become_parameters_and_end_of_text() -> None:
    generation = Generation({"top_k": 3}, ("stop",), max_tokens=2, logprobs=True)
    request = generation.build_request(interface(), "hi", {})
    assert dict(request.parameters.items()) == {"top_k": 3, "max_tokens": 2, "logprobs": True}
    assert request.inputs[0].data == ["hi"]
    assert Generation({}).build_request(interface(), "hi", {}).parameters is None


@pytest.mark.parametrize(("index", "seed"), [(0, 7), (2, 9)])
def test_each_choice_has_own_seed(index: int, seed: int) -> None:
    request = Generation({"seed": 7}).build_request(interface(), "hi", {}, index)
    assert request.parameters.get("seed") == seed


def test_seed_increments_and_wraps() -> None:
    request = Generation({"seed": SEEDS - 1}).build_request(interface(), "hi", {}, 1)
    assert request.parameters.get("seed") == 0


def test_additional_fields_reach_model_except_reserved_ones() -> None:
    fields = Fields({"temperature": 0.5, "min_p": 0.1, "stream": True, "priority": 1, "tools": []})
    assert read_sampling(fields, frozenset({"stream"})) == {"temperature": 0.5, "min_p": 0.1}


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("temperature", 3, "must be at most 2"),
        ("top_p", -1, "must be at least 0"),
        ("presence_penalty", "x", "must be a number"),
        ("seed", 0.5, "must be a whole number"),
    ],
)
def test_invalid_parameter_is_named(name: str, value: object, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name}: {sentence}"):
        read_sampling(Fields({name: value}), frozenset())


def test_unsupported_log_probabilities_are_refused() -> None:
    expect_logprobs(interface(logprobs=True), "logprobs")
    with pytest.raises(InvalidRequest, match="top_logprobs: the model gives no log probabilities"):
        expect_logprobs(interface(), "top_logprobs")
