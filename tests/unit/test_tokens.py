"""The use of tokens, as responses tell it."""

import pytest

from inferstream.tokens import UNKNOWN, ToldUsage, tokens_of, usage_of
from inferstream.types import Parameters


@pytest.mark.parametrize(
    ("parameters", "usage"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 0}, ToldUsage(3, 0)),
        ({"finish_reason": "length"}, ToldUsage(finish_reason="length")),
        ({"prompt_tokens": -1, "completion_tokens": "5"}, UNKNOWN),
        ({"other": 1}, UNKNOWN),
    ],
)
def test_what_is_told_is_read_and_what_is_no_count_is_not(parameters: dict, usage: ToldUsage) -> None:
    assert usage_of(Parameters(**parameters)) == usage


def test_a_response_without_parameters_tells_nothing() -> None:
    assert usage_of(None) is UNKNOWN
    assert usage_of(Parameters(content_type="str")) is UNKNOWN


def test_items_count_where_the_model_tells_nothing() -> None:
    assert tokens_of(None, 3) == 3
    assert tokens_of(Parameters(), 3) == 3


def test_the_models_own_usage_counts() -> None:
    assert tokens_of(Parameters(prompt_tokens=5, completion_tokens=7), 3) == 12
