"""Sampling parameters of a request, without torch: which are taken, and how the others are refused."""

import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.llm.sampling import Sampling, read_sampling


def test_absent_options_have_defaults() -> None:
    default = Sampling(temperature=0.7, top_k=40)
    assert read_sampling({}, default) is default
    assert read_sampling({"priority": 1, "top_p": None}, default) == default
    assert read_sampling({"top_p": 0.5, "max_tokens": 3}, default) == Sampling(0.7, 40, 0.5, max_tokens=3)


def test_all_options_are_read() -> None:
    given = {
        "temperature": 1,
        "top_k": 5.0,
        "top_p": 1,
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "presence_penalty": -2,
        "frequency_penalty": 2,
        "seed": -7,
        "max_tokens": 9,
        "logprobs": True,
        "top_logprobs": 2,
        "ignore_eos": True,
    }
    assert read_sampling(given, Sampling()) == Sampling(**given)
    assert read_sampling({"top_k": -1}, Sampling(1.0, 5)).top_k == 0


def test_restricted_sampling_is_not_greedy() -> None:
    assert read_sampling({"top_p": 0.9}, Sampling()).temperature == 1
    assert read_sampling({"top_p": 0.9, "temperature": 0}, Sampling()).temperature == 0
    assert read_sampling({"seed": 1}, Sampling()).temperature == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", "warm"),
        ("temperature", float("nan")),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 1.01),
        ("top_k", -2),
        ("top_k", 1.5),
        ("min_p", 2),
        ("repetition_penalty", 0),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -3),
        ("seed", "abc"),
        ("seed", 0.5),
        ("seed", 2**64),
        ("max_tokens", 0),
        ("logprobs", 1),
        ("top_logprobs", 21),
        ("ignore_eos", "yes"),
    ],
)
def test_invalid_values_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(InvalidRequest, match=name) as caught:
        read_sampling({name: value}, Sampling())
    (fault,) = caught.value.detail
    assert fault["loc"] == [name]
    assert fault["msg"] == caught.value.message
