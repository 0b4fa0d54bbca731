"""Computes rates, quantiles and gauges of each model from two scrapes of `/metrics`."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Model = tuple[str, str]
"""Name and version. The version is empty if the model has none."""

Buckets = dict[float, float]
"""Cumulative counts by upper bound."""

SERVER: Model = ("", "")
"""The key of samples without a model."""

SUCCESSES = "model_infer_request_success_total"
FAILURES = "model_infer_request_failure_total"
IN_PROGRESS = "inferstream_calls_in_progress"
QUEUED = ("inferstream_queue_depth", "inferstream_streams_waiting")
ITEMS = "inferstream_stream_items_total"
LATENCY = "inferstream_call_seconds"
FIRST = "inferstream_time_to_first_item_seconds"
MEMORY = (
    "inferstream_model_memory_bytes",
    "inferstream_model_loads_total",
    "inferstream_model_evictions_total",
)
COLD = "inferstream_cold_wait_seconds"
SIZES = ("inferstream_step_size", "inferstream_batch_size")
"""Histograms of the streams per step and of the requests per batch. A model has at most one of them."""


class Scrape:
    """The samples of one scrape, summed over all labels except model and version. `time` is in seconds."""

    def __init__(self, text: str, time: float) -> None:
        # Imported lazily: other commands do not need it.
        from prometheus_client.parser import text_string_to_metric_families

        self.time = time
        self.values: defaultdict[str, defaultdict[Model, float]] = defaultdict(lambda: defaultdict(float))
        self.buckets: defaultdict[str, defaultdict[Model, Buckets]] = defaultdict(lambda: defaultdict(dict))
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                model = (sample.labels.get("model", ""), sample.labels.get("version", ""))
                if (bound := sample.labels.get("le")) is not None and sample.name.endswith("_bucket"):
                    bucket = self.buckets[sample.name.removesuffix("_bucket")][model]
                    bucket[float(bound)] = bucket.get(float(bound), 0.0) + sample.value
                else:
                    self.values[sample.name][model] += sample.value

    @property
    def models(self) -> list[Model]:
        """All models that were called or loaded."""
        return sorted(model for model in self.values[IN_PROGRESS] if model != SERVER)

    def value(self, name: str, model: Model = SERVER) -> float | None:
        """Return the value of a gauge or counter. Returns None if the server does not export it."""
        return self.values[name].get(model) if name in self.values else None


class ModelRates(NamedTuple):
    """The figures of one model.

    Rates are per second, times in seconds. None means unknown, for example without calls.
    """

    model: Model
    calls: float
    errors: float
    running: float
    queued: float
    items: float
    p50: float | None
    p99: float | None
    first_p50: float | None
    first_p99: float | None
    size: float | None
    """The mean number of streams per step or of requests per batch."""
    memory: tuple[float, ...] | None
    """Memory in bytes, loads and evictions of a model that can be evicted."""
    cold: float | None
    """The mean time that calls waited for the model to load."""


def compute_rows(before: Scrape, after: Scrape, since: Scrape | None) -> list[ModelRates]:
    """Return one row per model: rates between `before` and `after`, quantiles between `since` and `after`.

    Without `since`, quantiles cover the time since the server started.
    """
    return [_compute_row(model, before, after, since) for model in after.models]


def _compute_row(model: Model, before: Scrape, after: Scrape, since: Scrape | None) -> ModelRates:
    seconds = max(after.time - before.time, 1e-9)

    def rate(*names: str) -> float:
        return (
            sum(
                increase(before.values[name].get(model, 0.0), after.values[name].get(model, 0.0))
                for name in names
            )
            / seconds
        )

    latency, first = (_subtract_buckets(since, after, name, model) for name in (LATENCY, FIRST))
    return ModelRates(
        model,
        rate(SUCCESSES, FAILURES),
        rate(FAILURES),
        after.values[IN_PROGRESS].get(model, 0.0),
        sum(after.values[name].get(model, 0.0) for name in QUEUED),
        rate(ITEMS),
        quantile(latency, 0.5),
        quantile(latency, 0.99),
        quantile(first, 0.5),
        quantile(first, 0.99),
        next((size for name in SIZES if (size := _mean(since, after, name, model)) is not None), None),
        tuple(after.values[name][model] for name in MEMORY) if model in after.values[MEMORY[0]] else None,
        _mean(since, after, COLD, model),
    )


def increase(before: float, after: float) -> float:
    """Return the growth of a counter. A counter that is lower than before has been reset by a restart."""
    return after - before if after >= before else after


def _subtract_buckets(before: Scrape | None, after: Scrape, name: str, model: Model) -> Buckets:
    later = after.buckets[name].get(model, {})
    past = {} if before is None else before.buckets[name].get(model, {})
    if past.get(math.inf, 0.0) > later.get(math.inf, 0.0):
        past = {}  # The server restarted.
    return {bound: count - past.get(bound, 0.0) for bound, count in later.items()}


def _mean(before: Scrape | None, after: Scrape, name: str, model: Model) -> float | None:
    count, total = (
        increase(
            0.0 if before is None else before.values[name + end].get(model, 0.0),
            after.values[name + end].get(model, 0.0),
        )
        for end in ("_count", "_sum")
    )
    return total / count if count else None


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """Return the value below which `share` of the observations are, interpolated within its bucket.

    Returns None without observations. If the value is beyond the last finite bound, returns that bound, as in
    Prometheus.
    """
    total = buckets.get(math.inf, 0.0)
    if total <= 0:
        return None
    wanted, lower, below = share * total, 0.0, 0.0
    for bound in sorted(buckets):
        if buckets[bound] >= wanted:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (wanted - below) / max(buckets[bound] - below, 1e-12)
        lower, below = bound, buckets[bound]
    return lower


def find_window_start(scrapes: Iterable[Scrape], seconds: float, now: float) -> Scrape | None:
    """Return the oldest scrape of the last `seconds`. Returns None if all are older."""
    return next((scrape for scrape in scrapes if now - scrape.time <= seconds), None)
