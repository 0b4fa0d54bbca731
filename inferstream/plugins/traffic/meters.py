"""Meters of copies of calls."""

from inferstream.ext.telemetry import MeterSet, counter

SHADOWED = (
    "inferstream_shadow_calls",
    "Copies of calls for a shadow, by how its responses compare with the model's",
)


class ShadowMeters(MeterSet):
    """Copies of calls for a model's shadow, by what came of them."""

    equal: int = counter(*SHADOWED, by=("result",), fixed="equal")
    different: int = counter(*SHADOWED, by=("result",), fixed="different")
    failed: int = counter(*SHADOWED, by=("result",), fixed="failed")
    dropped: int = counter(*SHADOWED, by=("result",), fixed="dropped")
    unchecked: int = counter(*SHADOWED, by=("result",), fixed="unchecked")
