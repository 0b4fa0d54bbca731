"""Meters of the response cache: of each model that uses it, and of what it holds."""

from collections.abc import Iterable
from typing import Self

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class CacheMeters:
    """How often one model was asked what was known, what was being computed, and what was new."""

    def __init__(self) -> None:
        self.hits = 0
        self.joined = 0
        self.misses = 0

    @classmethod
    def collect(cls, found: Iterable[tuple[list[str], Self]]) -> Iterable[Metric]:
        """The families of these models' meters, each with the model's name and version."""
        lookups = CounterMetricFamily(
            "inferstream_cache_lookups",
            "Calls by what the response cache had: the answer, its computation, or nothing",
            labels=["model", "version", "result"],
        )
        for labels, meters in found:
            lookups.add_metric([*labels, "hit"], meters.hits)
            lookups.add_metric([*labels, "joined"], meters.joined)
            lookups.add_metric([*labels, "miss"], meters.misses)
        yield lookups


class StoreMeters(Collector):
    """What the cache of all models holds, in answers and in bytes, and how much it had to drop for others."""

    def __init__(self) -> None:
        self.entries = 0
        self.bytes = 0
        self.evicted = 0

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("inferstream_cache_entries", "Answers in the response cache", self.entries)
        yield GaugeMetricFamily(
            "inferstream_cache_bytes", "Bytes of answers kept and being recorded", self.bytes
        )
        yield CounterMetricFamily(
            "inferstream_cache_evicted", "Answers dropped to make room for others", self.evicted
        )
