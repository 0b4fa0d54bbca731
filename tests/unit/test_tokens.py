"""The use of tokens, as responses tell it."""

import pytest

from inferstream.tokens import UNKNOWN, ToldUsage, count_tokens, read_usage
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
def test_valid_usage_is_read_and_invalid_counts_are_ignored(parameters: dict, usage: ToldUsage) -> None:
    assert read_usage(Parameters(**parameters)) == usage


def test_response_without_parameters_has_no_usage() -> None:
    assert read_usage(None) is UNKNOWN
    assert read_usage(Parameters(content_type="str")) is UNKNOWN


def test_items_are_counted_without_model_usage() -> None:
    assert count_tokens(None, 3) == 3
    assert count_tokens(Parameters(), 3) == 3


def test_model_usage_takes_precedence() -> None:
    assert count_tokens(Parameters(prompt_tokens=5, completion_tokens=7), 3) == 12
