"""Metrics of shadow calls."""

from inferstream.ext.telemetry import MeterSet, counter

SHADOWED = (
    "inferstream_shadow_calls",
    "Copies of calls for a shadow version, by result of the comparison",
)


class ShadowMeters(MeterSet):
    """Counts the calls that are copied to a model's shadow, by outcome."""

    equal: int = counter(*SHADOWED, by=("result",), fixed="equal")
    different: int = counter(*SHADOWED, by=("result",), fixed="different")
    failed: int = counter(*SHADOWED, by=("result",), fixed="failed")
    dropped: int = counter(*SHADOWED, by=("result",), fixed="dropped")
    unchecked: int = counter(*SHADOWED, by=("result",), fixed="unchecked")
