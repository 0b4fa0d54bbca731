"""Meters of a model's pipeline stages: queue, batches, cache, steps, tokens and executions."""

from time import perf_counter

from .meter_set import COUNTS, TOKENS, Histogram, MeterSet, Single, counter, gauge, histogram, summary

LOOKUPS = (
    "inferstream_cache_lookups",
    "Lookups in the response cache by result",
)


class BatchMeters(MeterSet):
    """Batch sizes, waiting times of requests, and numbers of waiting requests."""

    sizes: Histogram = histogram("inferstream_batch_size", "Requests in a batch", COUNTS)
    waits: Histogram = histogram(
        "inferstream_batch_wait_seconds", "Seconds that a request waited until its batch started"
    )
    depths: Histogram = histogram(
        "batch_request_queue",
        "Requests in the queue of a batch when a request arrived, including that request",
        COUNTS,
        labels=("model_name", "model_version"),  # as in MLServer, for its dashboards
    )


class CacheMeters(MeterSet):
    """Cache lookups of one model: cached, in progress, or new."""

    hits: int = counter(*LOOKUPS, by=("result",), fixed="hit")
    joined: int = counter(*LOOKUPS, by=("result",), fixed="joined")
    misses: int = counter(*LOOKUPS, by=("result",), fixed="miss")


DROPPED = ("inferstream_queue_dropped", "Calls rejected by the queue or removed from it")


class QueueMeters(MeterSet):
    """Waiting calls, their waiting times, and calls that left the queue early."""

    depth: int = gauge("inferstream_queue_depth", "Calls in the queue")
    active: int = gauge("inferstream_calls_active", "Calls that have left the queue")
    """Updated at scrape time."""
    waits: Histogram = histogram(
        "inferstream_queue_wait_seconds", "Seconds in the queue, for calls that had to wait"
    )
    full: int = counter(*DROPPED, by=("reason",), fixed="full")
    expired: int = counter(*DROPPED, by=("reason",), fixed="expired")
    cancelled: int = counter(*DROPPED, by=("reason",), fixed="cancelled")

    def count_early_exit(self, expired: bool) -> None:
        """Count a call that left the queue because its deadline passed (`expired`) or its client left."""
        if expired:
            self.expired += 1
        else:
            self.cancelled += 1


SIZES = 64
"""The maximum number of batch sizes counted per model. Clients choose the sizes, so it must be bounded."""

OTHER = 0
"""The key for all additional batch sizes."""


class ComputeMeters(MeterSet):
    """Successful executions of a model, with their durations and rows."""

    inferences: int = counter("inferstream_inferences", "Rows that models have processed")
    seconds = summary(
        "inferstream_compute_seconds",
        "Seconds per execution of a model",
        by=("batch_size",),
        read=lambda self: {
            str(size) if size else "other": (int(count), total)
            for size, (count, total) in sorted(self.sizes.items())
        },
    )

    def __init__(self, count: int = 0, seconds: float = 0.0) -> None:
        super().__init__()
        self.inferences = count
        self.sizes: dict[int, list[float]] = {1: [count, seconds]} if count else {}
        """The number of executions and their total seconds, by number of rows."""

    def count_execution(self, rows: int, began: float) -> None:
        executed = self.sizes.get(rows)
        if executed is None:
            executed = self.sizes.setdefault(rows if len(self.sizes) < SIZES else OTHER, [0, 0.0])
        self.inferences += rows
        executed[0] += 1
        executed[1] += perf_counter() - began


class StepMeters(MeterSet):
    """Active and waiting streams, the size and duration of each step, and the wait for the first step."""

    active: int = gauge("inferstream_streams_active", "Streams that advance by steps")
    waiting: int = gauge("inferstream_streams_waiting", "Streams that wait until they can advance")
    sizes: Histogram = histogram("inferstream_step_size", "Streams in a step", COUNTS)
    durations: Histogram = histogram("inferstream_step_seconds", "Seconds per step")
    waits: Histogram = histogram(
        "inferstream_step_wait_seconds",
        "Seconds from the arrival of a stream to its first step, including its admission",
    )

    def count_step(self, states: int, seconds: float) -> None:
        self.sizes.observe(states)
        self.durations.observe(seconds)


class TokenMeters(MeterSet):
    """Tokens of calls, counted at the end of each call.

    Input tokens are counted if the model reports them.
    """

    read = counter(
        "inferstream_input_tokens",
        "Prompt tokens, for models that count them",
        read=lambda self: self.input.total,
    )
    written = counter(
        "inferstream_output_tokens",
        "Output tokens, added at the end of each call",
        read=lambda self: self.output.total,
    )

    def __init__(self) -> None:
        super().__init__()
        self.operation: str | None = None
        """The operation name in OpenTelemetry, if known."""
        self.input = Histogram(TOKENS)
        self.output = Histogram(TOKENS)

    def count_tokens(self, read: int | None, written: int | None) -> None:
        """Count the tokens of one call. None means unknown."""
        if read is not None:
            self.input.observe(read)
        if written is not None:
            self.output.observe(written)


class KvMeters(MeterSet):
    """KV cache usage of one model. Each process that runs the model has one cache."""

    used: float = gauge(
        "inferstream_kv_caches_used",
        "Fraction of the model's KV cache in use (0 to 1), summed over all processes",
    )
    caches: int = gauge("inferstream_kv_caches", "Processes that report the use of the model's KV cache")


class ResidencyMeters(MeterSet):
    """Whether a model that can be evicted is in memory, its memory use, and its loads and evictions."""

    loaded: int = gauge(
        "inferstream_model_in_memory", "Whether a model that can be unloaded is in memory (0 or 1)"
    )
    memory: int = gauge("inferstream_model_memory_bytes", "Memory of the model's workers (PSS)")
    loads: int = counter("inferstream_model_loads", "Number of times that the model was loaded")
    evictions: int = counter(
        "inferstream_model_evictions",
        "Number of times that the model was unloaded because it was idle or other models needed the memory",
    )
    waits: Histogram = histogram(
        "inferstream_cold_wait_seconds", "Seconds that calls waited until their model was loaded"
    )


class StoreMeters(Single):
    """Entries and bytes in the cache of all models, and evicted entries."""

    entries: int = gauge("inferstream_cache_entries", "Responses in the response cache")
    bytes: int = gauge(
        "inferstream_cache_bytes", "Bytes of cached responses, including responses being recorded"
    )
    evicted: int = counter("inferstream_cache_evicted", "Responses evicted from the full response cache")
