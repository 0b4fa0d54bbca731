"""Rights of principals."""

import pytest

from inferstream.keys.principal import KeyLimits, Principal


def key_for(*models):
    return Principal("alice", "abc", (), models)


@pytest.mark.parametrize(
    ("patterns", "model", "allowed"),
    [
        (["*"], "any\nname", True),
        (["llm-*"], "llm-small", True),
        (["llm-*"], "LLM-small", False),
        (["llm-*"], "my-llm-small", False),
        (["a", "b?"], "b1", True),
        (["a", "b?"], "ab", False),
        (["[ab]"], "a", True),
        (["a"], "a\n", False),
        ([], "a", False),
        ([], "", False),
    ],
)
def test_models_are_allowed_by_pattern(patterns, model, allowed):
    assert key_for(*patterns).sees(model) is allowed


def test_a_limit_is_no_negative_or_infinite_number():
    for limits in (
        {"in_flight": -1},
        {"requests_per_second": float("inf")},
        {"requests_per_second": float("nan")},
    ):
        with pytest.raises(ValueError, match="must be 0 or more"):
            KeyLimits(**limits)
    with pytest.raises(ValueError, match="needs"):
        KeyLimits(burst=3)


def test_the_burst_is_the_requests_of_a_second_by_default():
    def burst(**limits):
        return Principal("a", "a", (), (), None, KeyLimits(**limits)).burst

    assert burst(requests_per_second=0.1) == 1
    assert burst(requests_per_second=2.5) == 3
    assert burst(requests_per_second=2.5, burst=9) == 9
