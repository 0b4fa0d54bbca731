"""Rights of principals."""

import pytest

from inferstream.plugins.keys.principal import KeyLimits, Principal


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


def test_limit_must_be_finite_and_not_negative():
    for limits in (
        {"in_flight": -1},
        {"requests_per_second": float("inf")},
        {"requests_per_second": float("nan")},
    ):
        with pytest.raises(ValueError, match="must be 0 or more"):
            KeyLimits(**limits)
    with pytest.raises(ValueError, match="needs"):
        KeyLimits(burst=3)


def test_burst_defaults_to_requests_per_second():
    def burst(**limits):
        return Principal("a", "a", (), (), None, KeyLimits(**limits)).burst

    assert burst(requests_per_second=0.1) == 1
    assert burst(requests_per_second=2.5) == 3
    assert burst(requests_per_second=2.5, burst=9) == 9
