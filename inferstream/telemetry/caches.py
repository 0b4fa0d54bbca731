"""Meters of the response cache: of each model that uses it, and of its contents."""

from collections.abc import Iterable
from typing import Self

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class CacheMeters:
    """Lookups of one model: cached, being computed, or new."""

    def __init__(self) -> None:
        self.hits = 0
        self.joined = 0
        self.misses = 0

    @classmethod
    def collect(cls, found: Iterable[tuple[list[str], Self]]) -> Iterable[Metric]:
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
    """Entries and bytes in the cache of all models, and entries evicted for others."""

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
