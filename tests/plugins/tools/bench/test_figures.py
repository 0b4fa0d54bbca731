"""Figures out of what was seen, and limits on them."""

from array import array
from collections import Counter

import pytest

from inferstream.plugins.tools.bench.figures import LoadLimits, Seen, compute_figures, compute_spread
from inferstream.plugins.tools.bench.load import Items


def seen(**changed) -> Seen:
    found = Seen(
        latencies=array("d", [0.010] * 99 + [0.110]),
        firsts=array("d", [0.002] * 100),
        gaps=array("d", [0.001] * 300),
        items=400,
        failures=Counter({"503: busy": 25}),
        began=100.0,
        ended=102.0,
    )
    for name, value in changed.items():
        setattr(found, name, value)
    return found


def test_times_are_milliseconds_and_rates_per_second() -> None:
    found = compute_figures(seen())
    assert found["rate"] == 50.0
    assert found["item_rate"] == 200.0
    assert found["latency_ms"] == {
        "mean": 11.0,
        "p50": 10.0,
        "p90": 10.0,
        "p95": 10.0,
        "p99": 11.0,
        "max": 110.0,
    }
    assert found["first_item_ms"]["p99"] == 2.0
    assert found["gap_ms"]["p50"] == 1.0
    assert found["failures"] == {"503: busy": 25}


def test_empty_sample_has_no_spread() -> None:
    assert compute_spread(array("d")) is None
    found = compute_figures(Seen(began=1.0, ended=2.0))
    assert found["latency_ms"] is None
    assert "gap_ms" not in found


def test_calls_never_started_are_reported() -> None:
    assert compute_figures(seen(due=200))["late"] == 75
    assert compute_figures(seen(due=0))["late"] == 0


@pytest.mark.parametrize(
    ("limits", "broken"),
    [
        (LoadLimits(), []),
        (LoadLimits(max_p50=10, max_p99=11, max_first_p99=2, max_gap_p99=1, min_rate=50, max_errors=0.2), []),
        (LoadLimits(max_p50=9.9), ["latency p50 10, at most 9.9 ms"]),
        (LoadLimits(max_p99=10), ["latency p99 11, at most 10 ms"]),
        (LoadLimits(max_first_p99=1), ["first item p99 2, at most 1 ms"]),
        (LoadLimits(max_gap_p99=0.5), ["gap p99 1, at most 0.5 ms"]),
        (LoadLimits(min_rate=51), ["rate 50, at least 51 per second"]),
        (LoadLimits(max_errors=0.1), ["errors 0.2, at most 0.1 of the calls"]),
    ],
)
def test_each_limit_is_reported_by_name(limits: LoadLimits, broken: list[str]) -> None:
    assert limits.find_violations(compute_figures(seen())) == broken


def test_limit_on_unmeasured_figure_fails() -> None:
    found = compute_figures(Seen(began=1.0, ended=2.0))
    assert LoadLimits(max_gap_p99=5).find_violations(found) == ["gap p99 was not measured, at most 5 ms"]


def test_simultaneous_items_have_no_gap() -> None:
    now = 10.0
    items = Items(lambda: now, began=9.0)
    items.record(2)
    now = 10.5
    items.record(3)
    now = 11.0
    items.record(1)
    assert (items.first, items.gaps, items.count) == (1.0, [0.0, 0.5, 0.0, 0.0, 0.5], 6)
