"""Meters of what happens to the calls of a model: queue, batches, cache, steps, tokens, executions."""

from time import perf_counter

from .meter_set import COUNTS, TOKENS, Histogram, MeterSet, Single, counter, gauge, histogram, summary

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


DROPPED = ("inferstream_queue_dropped", "Calls refused by the queue or ended in it")


class QueueMeters(MeterSet):
    """Waiting calls, their waits, and calls that left before their turn."""

    depth: int = gauge("inferstream_queue_depth", "Calls that wait for their turn")
    active: int = gauge("inferstream_calls_active", "Calls that no longer wait")
    """Set at a scrape."""
    waits: Histogram = histogram("inferstream_queue_wait_seconds", "Seconds waited by calls that had to wait")
    full: int = counter(*DROPPED, by=("reason",), fixed="full")
    expired: int = counter(*DROPPED, by=("reason",), fixed="expired")
    cancelled: int = counter(*DROPPED, by=("reason",), fixed="cancelled")

    def left(self, expired: bool) -> None:
        """Count a call that ended before its model began: its deadline passed, or its caller left."""
        if expired:
            self.expired += 1
        else:
            self.cancelled += 1


SIZES = 64
"""Distinct batch sizes for one model. Clients choose sizes, so there must be a bound."""

OTHER = 0
"""Stands for every further batch size."""


class ComputeMeters(MeterSet):
    """Successful executions of a model, with their seconds and rows."""

    inferences: int = counter("inferstream_inferences", "Rows that models have run with")
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
        """Executions and their seconds, by rows."""

    def executed(self, rows: int, began: float) -> None:
        executed = self.sizes.get(rows)
        if executed is None:
            executed = self.sizes.setdefault(rows if len(self.sizes) < SIZES else OTHER, [0, 0.0])
        self.inferences += rows
        executed[0] += 1
        executed[1] += perf_counter() - began


class StepMeters(MeterSet):
    """Streams that advance or wait for a place, the size and seconds of each step, and waits for the first step."""

    active: int = gauge("inferstream_streams_active", "Streams that advance by steps")
    waiting: int = gauge("inferstream_streams_waiting", "Streams that wait for a place among those")
    sizes: Histogram = histogram("inferstream_step_size", "Streams in a step", COUNTS)
    durations: Histogram = histogram("inferstream_step_seconds", "Seconds per step")
    waits: Histogram = histogram(
        "inferstream_step_wait_seconds",
        "Seconds from a stream's arrival at the steps to its first step, its admission included",
    )

    def stepped(self, states: int, seconds: float) -> None:
        self.sizes.observe(states)
        self.durations.observe(seconds)


class TokenMeters(MeterSet):
    """Tokens of calls, counted when each call ends: of prompts as far as models tell them, and of texts."""

    read = counter(
        "inferstream_input_tokens",
        "Tokens of prompts, of models that count them",
        read=lambda self: self.input.total,
    )
    written = counter(
        "inferstream_output_tokens",
        "Tokens of texts, counted when their calls end",
        read=lambda self: self.output.total,
    )

    def __init__(self) -> None:
        super().__init__()
        self.operation: str | None = None
        """The kind of the model for OpenTelemetry, if it is known."""
        self.input = Histogram(TOKENS)
        self.output = Histogram(TOKENS)

    def used(self, read: int | None, written: int | None) -> None:
        """Count the tokens of one call; None for a number that is not known."""
        if read is not None:
            self.input.observe(read)
        if written is not None:
            self.output.observe(written)


class KvMeters(MeterSet):
    """The use of the KV caches of one model, one in each process that runs it."""

    used: float = gauge(
        "inferstream_kv_caches_used", "Parts of the model's KV caches in use, each 0 to 1, over all processes"
    )
    caches: int = gauge("inferstream_kv_caches", "Processes that report the use of the model's KV cache")


class ResidencyMeters(MeterSet):
    """Whether a model that may leave memory is there, what it holds, and how often it came and went."""

    loaded: int = gauge("inferstream_model_in_memory", "Whether a model that may leave memory is there")
    memory: int = gauge("inferstream_model_memory_bytes", "Memory of the model's workers (PSS)")
    loads: int = counter("inferstream_model_loads", "Times that the model came into memory")
    evictions: int = counter(
        "inferstream_model_evictions", "Times that the model left memory for others, or idle"
    )
    waits: Histogram = histogram(
        "inferstream_cold_wait_seconds", "Seconds that calls waited for their model to come into memory"
    )


class StoreMeters(Single):
    """Entries and bytes in the cache of all models, and entries evicted for others."""

    entries: int = gauge("inferstream_cache_entries", "Answers in the response cache")
    bytes: int = gauge("inferstream_cache_bytes", "Bytes of answers kept and being recorded")
    evicted: int = counter("inferstream_cache_evicted", "Answers dropped to make room for others")
