"""Meters of single stages: batches and the response cache."""

from .families import Single
from .histogram import COUNTS, Histogram
from .meter_set import MeterSet, counter, gauge, histogram

LOOKUPS = (
    "inferstream_cache_lookups",
    "Calls by what the response cache had: the answer, its computation, or nothing",
)


class BatchMeters(MeterSet):
    """Sizes of batches, waits of their requests, and numbers of waiting requests."""

    sizes: Histogram = histogram("inferstream_batch_size", "Requests in a batch", COUNTS)
    waits: Histogram = histogram(
        "inferstream_batch_wait_seconds", "Seconds a request waited for its batch to leave"
    )
    depths: Histogram = histogram(
        "batch_request_queue",
        "Requests that waited for a batch when one more came, itself included",
        COUNTS,
        labels=("model_name", "model_version"),  # MLServer's, for its dashboards
    )


class CacheMeters(MeterSet):
    """Lookups of one model: cached, being computed, or new."""

    hits: int = counter(*LOOKUPS, by=("result",), fixed="hit")
    joined: int = counter(*LOOKUPS, by=("result",), fixed="joined")
    misses: int = counter(*LOOKUPS, by=("result",), fixed="miss")


class StoreMeters(Single):
    """Entries and bytes in the cache of all models, and entries evicted for others."""

    entries: int = gauge("inferstream_cache_entries", "Answers in the response cache")
    bytes: int = gauge("inferstream_cache_bytes", "Bytes of answers kept and being recorded")
    evicted: int = counter("inferstream_cache_evicted", "Answers dropped to make room for others")
