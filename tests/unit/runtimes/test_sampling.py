"""Parameters of a request that say how tokens are chosen, and those that are refused."""

from typing import Any

import pytest

from inferstream.errors import InvalidRequest
from inferstream.runtimes.sampling import Sampling, sampling_of
from inferstream.types import InferenceRequest, Parameters


def asked(**parameters: Any) -> InferenceRequest:
    return InferenceRequest(inputs=[], parameters=Parameters(**parameters))


def test_what_a_request_does_not_say_has_a_default() -> None:
    assert sampling_of(asked()) == sampling_of(InferenceRequest(inputs=[])) == Sampling()


def test_every_parameter_is_read_under_its_own_name() -> None:
    given = {
        "max_tokens": 7,
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 3,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": -1,
        "frequency_penalty": 2,
        "seed": -5,
        "logprobs": True,
        "top_logprobs": 2,
    }
    assert sampling_of(asked(**given, user="somebody")) == Sampling(**given)


def test_a_whole_number_may_be_written_as_a_fraction() -> None:
    assert sampling_of(asked(max_tokens=7.0)).max_tokens == 7


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("max_tokens", 0, "at least 1"),
        ("max_tokens", 1.5, "an integer"),
        ("max_tokens", True, "an integer"),
        ("temperature", -0.1, "at least 0"),
        ("temperature", float("nan"), "at least 0"),
        ("temperature", "hot", "a number"),
        ("top_p", 1.1, "from 0 to 1"),
        ("top_k", -1, "at least 0"),
        ("presence_penalty", 3, "from -2 to 2"),
        ("logprobs", 1, "true or false"),
        ("top_logprobs", 21, "from 0 to 20"),
        ("seed", "7", "an integer"),
    ],
)
def test_a_wrong_parameter_is_named(name: str, value: Any, rule: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{name} has to be {rule}, not") as refused:
        sampling_of(asked(**{name: value}))
    assert refused.value.detail is not None
    assert refused.value.detail[0]["loc"] == [name]
