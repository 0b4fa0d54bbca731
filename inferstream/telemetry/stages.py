"""Meters of single stages: batches and the response cache."""

from collections.abc import Iterable
from typing import Self

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from .histogram import COUNTS, SECONDS, Histogram


class BatchMeters:
    """Sizes of batches, waits of their requests, and numbers of waiting requests."""

    def __init__(self) -> None:
        self.sizes = Histogram(COUNTS)
        self.waits = Histogram(SECONDS)
        self.depths = Histogram(COUNTS)

    @classmethod
    def collect(cls, found: Iterable[tuple[list[str], Self]]) -> Iterable[Metric]:
        names = ["model", "version"]
        sizes = HistogramMetricFamily("inferstream_batch_size", "Requests in a batch", labels=names)
        waits = HistogramMetricFamily(
            "inferstream_batch_wait_seconds", "Seconds a request waited for its batch to leave", labels=names
        )
        # MLServer's name and labels, for its dashboards.
        depths = HistogramMetricFamily(
            "batch_request_queue",
            "Requests that waited for a batch when one more came, itself included",
            labels=["model_name", "model_version"],
        )
        for labels, meters in found:
            sizes.add_metric(labels, meters.sizes.buckets(), meters.sizes.total)
            waits.add_metric(labels, meters.waits.buckets(), meters.waits.total)
            depths.add_metric(labels, meters.depths.buckets(), meters.depths.total)
        return (sizes, waits, depths)


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
