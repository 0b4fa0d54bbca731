"""Rates, quantiles and gauges of each model, out of two scrapes of `/metrics`."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Model = tuple[str, str]
"""Name and version; the version is empty for a model without one."""

Buckets = dict[float, float]
"""Cumulative counts by upper bound."""

SERVER: Model = ("", "")
"""The key of samples that belong to no model."""

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
"""Histograms of the streams in a step and of the requests in a batch; a model has one of them."""


class Scrape:
    """The samples of one moment, added up over labels other than those of the model. `time` is in seconds."""

    def __init__(self, text: str, time: float) -> None:
        from prometheus_client.parser import text_string_to_metric_families  # late: other commands do without

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
        """Every model that has been called or loaded."""
        return sorted(model for model in self.values[IN_PROGRESS] if model != SERVER)

    def value(self, name: str, model: Model = SERVER) -> float | None:
        """A gauge or a counter; None if the server has none."""
        return self.values[name].get(model) if name in self.values else None


class ModelRates(NamedTuple):
    """One model. Rates are per second, times in seconds; None is not known, as without any call."""

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
    """Streams in a step, or requests in a batch, on average."""
    memory: tuple[float, ...] | None
    """Bytes, loads and evictions of a model that may leave memory."""
    cold: float | None
    """How long calls waited for it, on average."""


def rows(before: Scrape, after: Scrape, since: Scrape | None) -> list[ModelRates]:
    """A row for each model: rates between `before` and `after`, quantiles between `since` and `after`.

    Without `since` the quantiles are those since the start of the server.
    """
    return [_row(model, before, after, since) for model in after.models]


def _row(model: Model, before: Scrape, after: Scrape, since: Scrape | None) -> ModelRates:
    seconds = max(after.time - before.time, 1e-9)

    def rate(*names: str) -> float:
        return (
            sum(
                increase(before.values[name].get(model, 0.0), after.values[name].get(model, 0.0))
                for name in names
            )
            / seconds
        )

    latency, first = (_between(since, after, name, model) for name in (LATENCY, FIRST))
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
    """By how much a counter has grown. One that is smaller than before has begun again from zero, at a restart."""
    return after - before if after >= before else after


def _between(before: Scrape | None, after: Scrape, name: str, model: Model) -> Buckets:
    later = after.buckets[name].get(model, {})
    past = {} if before is None else before.buckets[name].get(model, {})
    if past.get(math.inf, 0.0) > later.get(math.inf, 0.0):
        past = {}  # a restart
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
    """The value below which `share` of the observations lie, interpolated within its bucket; None without any.

    Of observations beyond the last bound it is that bound, as with Prometheus.
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


def window(scrapes: Iterable[Scrape], seconds: float, now: float) -> Scrape | None:
    """The oldest scrape of the last `seconds`."""
    return next((scrape for scrape in scrapes if now - scrape.time <= seconds), None)
