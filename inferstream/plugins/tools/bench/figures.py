"""Measurements of a load test, and their statistics."""

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PERCENTILES = (50, 90, 95, 99)

Spread = dict[str, float]
"""Milliseconds by `mean`, `p50` to `p99`, and `max`."""


@dataclass(slots=True)
class Seen:
    """Measurements of all calls, in seconds: latency, time to first item and time between items."""

    latencies: "array[float]" = field(default_factory=lambda: array("d"))
    firsts: "array[float]" = field(default_factory=lambda: array("d"))
    gaps: "array[float]" = field(default_factory=lambda: array("d"))
    due: int = 0
    """The number of calls that should have started, in a plan with a rate."""
    items: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    began: float = 0.0
    ended: float = 0.0

    @property
    def succeeded(self) -> int:
        return len(self.latencies)

    @property
    def failed(self) -> int:
        return self.failures.total()


def compute_figures(seen: Seen) -> dict[str, Any]:
    """Compute the statistics as a JSON object. Times are in milliseconds, rates per second."""
    seconds = max(seen.ended - seen.began, 1e-9)
    report: dict[str, Any] = {
        "seconds": round(seconds, 3),
        "answered": seen.succeeded,
        "failed": seen.failed,
        "failures": dict(seen.failures.most_common()),
        "late": max(seen.due - seen.succeeded - seen.failed, 0),
        "rate": round(seen.succeeded / seconds, 2),
        "latency_ms": compute_spread(seen.latencies),
    }
    if seen.items:
        report["items"] = seen.items
        report["item_rate"] = round(seen.items / seconds, 2)
        report["first_item_ms"] = compute_spread(seen.firsts)
        report["gap_ms"] = compute_spread(seen.gaps)
    return report


def compute_spread(seconds: "array[float]") -> Spread | None:
    """Return the mean, percentiles and maximum in milliseconds, or None without values."""
    if not seconds:
        return None
    times = np.frombuffer(seconds) * 1e3
    percentiles = {"mean": times.mean()}
    percentiles |= {f"p{share}": np.percentile(times, share) for share in PERCENTILES}
    percentiles["max"] = times.max()
    return {name: round(float(value), 3) for name, value in percentiles.items()}


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Thresholds of a run.

    None means no limit. Times are in milliseconds, rates per second, errors as a share from 0 to 1.
    """

    max_p50: float | None = None
    max_p99: float | None = None
    max_first_p99: float | None = None
    max_gap_p99: float | None = None
    min_rate: float | None = None
    max_errors: float | None = None

    def find_violations(self, report: dict[str, Any]) -> list[str]:
        """Return a message for each threshold that is not met.

        A threshold for a value that was not measured is not met.
        """
        calls = report["answered"] + report["failed"]
        upper = [
            ("latency p50", self.max_p50, _find_time(report, "latency_ms", "p50"), "ms"),
            ("latency p99", self.max_p99, _find_time(report, "latency_ms", "p99"), "ms"),
            ("first item p99", self.max_first_p99, _find_time(report, "first_item_ms", "p99"), "ms"),
            ("gap p99", self.max_gap_p99, _find_time(report, "gap_ms", "p99"), "ms"),
            ("errors", self.max_errors, report["failed"] / calls if calls else None, "of the calls"),
        ]
        broken = [
            f"{name} {'was not measured' if value is None else f'{value:g}'}, at most {limit:g} {unit}"
            for name, limit, value, unit in upper
            if limit is not None and (value is None or value > limit)
        ]
        if self.min_rate is not None and report["rate"] < self.min_rate:
            broken.append(f"rate {report['rate']:g}, at least {self.min_rate:g} per second")
        return broken


def _find_time(report: dict[str, Any], kind: str, name: str) -> float | None:
    times: Spread | None = report.get(kind)
    return None if times is None else times[name]
