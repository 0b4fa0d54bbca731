"""Texts that clients ask for, in any dialect."""

import pytest

from inferstream import MetadataTensor, ModelSettings
from inferstream.errors import InvalidRequest
from inferstream.signature import Signature
from inferstream.text.fields import Fields
from inferstream.text.generation import SEEDS, Generation, expect_logprobs, sampling
from inferstream.text.interface import TextInterface, text_interface


def interface(logprobs: bool = False) -> TextInterface:
    prompt = (MetadataTensor(name="prompt", datatype="BYTES", shape=[1]),)
    made = text_interface(
        Signature(prompt, prompt, logprobs=logprobs), ModelSettings(implementation="m.M", name="m")
    )
    assert made is not None
    return made


def test_limits_become_parameters_and_the_end_of_the_text() -> None:
    generation = Generation({"top_k": 3}, ("stop",), max_tokens=2, logprobs=True)
    request = generation.request(interface(), "hi", {})
    assert dict(request.parameters.items()) == {"top_k": 3, "max_tokens": 2, "logprobs": True}
    assert request.inputs[0].data == ["hi"]
    assert Generation({}).request(interface(), "hi", {}).parameters is None


@pytest.mark.parametrize(("index", "seed"), [(0, 7), (2, 9)])
def test_each_of_several_texts_has_a_seed_of_its_own(index: int, seed: int) -> None:
    request = Generation({"seed": 7}).request(interface(), "hi", {}, index)
    assert request.parameters.get("seed") == seed


def test_a_seed_counts_on_from_the_last_at_the_first() -> None:
    request = Generation({"seed": SEEDS - 1}).request(interface(), "hi", {}, 1)
    assert request.parameters.get("seed") == 0


def test_further_fields_are_for_the_model_but_those_of_the_server_and_the_dialect() -> None:
    fields = Fields({"temperature": 0.5, "min_p": 0.1, "stream": True, "priority": 1, "tools": []})
    assert sampling(fields, frozenset({"stream"})) == {"temperature": 0.5, "min_p": 0.1}


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("temperature", 3, "must be at most 2"),
        ("top_p", -1, "must be at least 0"),
        ("presence_penalty", "x", "must be a number"),
        ("seed", 0.5, "must be a whole number"),
    ],
)
def test_a_parameter_that_is_wrong_is_named(name: str, value: object, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name}: {sentence}"):
        sampling(Fields({name: value}), frozenset())


def test_log_probabilities_are_refused_where_the_model_gives_none() -> None:
    expect_logprobs(interface(logprobs=True), "logprobs")
    with pytest.raises(InvalidRequest, match="top_logprobs: the model gives no log probabilities"):
        expect_logprobs(interface(), "top_logprobs")
