"""Meters of the response cache: of each model that uses it, and of what it holds."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class CacheMeters:
    """How often one model was asked what was known, what was being computed, and what was new."""

    def __init__(self) -> None:
        self.hits = 0
        self.joined = 0
        self.misses = 0


class StoreMeters:
    """What the cache of all models holds, in answers and in bytes, and how much it had to drop for others."""

    def __init__(self) -> None:
        self.entries = 0
        self.bytes = 0
        self.evicted = 0


def collect(found: Iterable[tuple[list[str], CacheMeters]], store: StoreMeters) -> Iterable[Metric]:
    """The families of these models' meters, each with the model's name and version, and of the store."""
    lookups = CounterMetricFamily(
        "inferstream_cache_lookups",
        "Calls by what the response cache had: the answer, its computation, or nothing",
        labels=["model", "version", "result"],
    )
    for labels, meters in found:
        lookups.add_metric([*labels, "hit"], meters.hits)
        lookups.add_metric([*labels, "joined"], meters.joined)
        lookups.add_metric([*labels, "miss"], meters.misses)
    evicted = CounterMetricFamily("inferstream_cache_evicted", "Answers dropped to make room for others")
    evicted.add_metric([], store.evicted)
    return (
        lookups,
        GaugeMetricFamily("inferstream_cache_entries", "Answers in the response cache", value=store.entries),
        GaugeMetricFamily(
            "inferstream_cache_bytes", "Bytes of answers kept and being recorded", value=store.bytes
        ),
        evicted,
    )
