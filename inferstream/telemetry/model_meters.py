"""Meters of the calls of one model."""

import time
from typing import TypeVar

from ..errors import Code, InferstreamError
from .ends import kind_of_end
from .meter_set import Buckets, Durations, Histogram, MeterSet, counter, gauge, histogram, summary
from .stages import ComputeMeters, KvMeters, QueueMeters, StepMeters, TokenMeters
from .tracebacks import describe_cause

DEFAULT = Buckets()


OfStage = TypeVar("OfStage", bound=MeterSet)


class StreamMeters(MeterSet):
    """Responses in streams, the time to the first one, and the time between them."""

    items: int = counter(
        "inferstream_stream_items",
        "Responses sent in streams",
    )
    first: Histogram = histogram(
        "inferstream_time_to_first_item_seconds", "Seconds from call to a stream's first response"
    )
    gaps: Histogram = histogram(
        "inferstream_time_between_items_seconds",
        "Seconds between two responses of a stream, including the time of the reader",
    )

    def __init__(self, buckets: Buckets) -> None:
        super().__init__()
        self.first = Histogram(buckets.first_item)
        self.gaps = Histogram(buckets.between_items)


class ModelMeters(MeterSet):
    success = counter("model_infer_request_success", "Calls that succeeded", read=lambda self: self.won.count)
    failure = counter(
        "model_infer_request_failure",
        "Calls that ended in an error",
        read=lambda self: self.every.count - self.won.count,
    )
    duration = summary(
        "model_infer_request_duration",
        "Seconds per call",
        read=lambda self: (self.every.count, self.every.total),
    )
    failed = counter(
        "inferstream_failed_call_seconds",
        "Seconds of calls that ended in an error",
        read=lambda self: self.every.total - self.won.total,
    )
    calls = counter(
        "inferstream_calls",
        "Calls by how they ended",
        by=("end",),
        read=lambda self: self.ends,
    )
    in_flight: int = gauge(
        "inferstream_calls_in_progress",
        "Calls waiting or running",
    )
    seconds = histogram("inferstream_call_seconds", "Seconds from call to end", read=lambda self: self.every)
    load = gauge(
        "inferstream_model_load_seconds",
        "Seconds that the model took to load",
        read=lambda self: self.load_seconds,
    )

    def __init__(self, model: str, version: str | None, buckets: Buckets = DEFAULT) -> None:
        super().__init__()
        self.labels = [model, version or ""]
        self._bounds = buckets.requests
        self.load_seconds: float | None = None
        """How long the current version took to load, in seconds, or None if another process measures it."""
        self.durations: Durations[str] = Durations(buckets.requests)
        """Durations of calls in seconds, by outcome: `success` or the error code."""
        self.waited = 0.0
        """The total time that successful calls waited, in seconds."""
        self.last_failure: tuple[float, str, str | None] | None = None
        """The last call in which the model failed.

        Seconds since 1970, the error for the client, and the exception of the model, which is only for operators.
        """
        self.last: float | None = None
        """The time of the last call, on the clock of `perf_counter`."""
        self.streams = StreamMeters(buckets)
        self.queue = QueueMeters()
        self.stages: dict[type[MeterSet], MeterSet] = {QueueMeters: self.queue}
        """The meters of stages that requested them. Reports of workers are added to these."""
        self.compute: ComputeMeters | None = None

    @property
    def every(self) -> Histogram:
        """Durations of all calls in seconds."""
        every = Histogram(self._bounds)
        for durations in self.durations.values():
            every.add(durations.counts, durations.total)
        return every

    @property
    def won(self) -> Histogram:
        """Durations of successful calls in seconds."""
        return self.durations.get("success") or Histogram(self._bounds)

    @property
    def ends(self) -> dict[str, int]:
        """The number of calls by outcome."""
        return {end: durations.count for end, durations in self.durations.items()}

    @property
    def tokens(self) -> TokenMeters | None:
        """The token meters of a language model. None for other models."""
        meters = self.stages.get(TokenMeters)
        return meters if isinstance(meters, TokenMeters) else None

    @property
    def waiting(self) -> int:
        """The number of calls that wait in the queue, or for a slot in continuous batching."""
        steps = self.stages.get(StepMeters)
        return self.queue.depth + (steps.waiting if isinstance(steps, StepMeters) else 0)

    @property
    def kv(self) -> KvMeters | None:
        """The KV cache meters of the model, or None if no process reports them."""
        kv = self.stages.get(KvMeters)
        return kv if isinstance(kv, KvMeters) else None

    def count_executions_separately(self) -> ComputeMeters:
        """Count executions separately from calls from now on."""
        self.compute = self.executions()
        return self.compute

    def executions(self) -> ComputeMeters:
        """Return the executions so far.

        If they are not counted separately, each successful call is one execution.
        """
        return self.compute or ComputeMeters(self.won.count, self.won.total - self.waited)

    def of(self, kind: type[OfStage]) -> OfStage:
        meters = self.stages.setdefault(kind, kind())
        assert isinstance(meters, kind)
        return meters

    def count_failure(self, error: BaseException, seconds: float) -> None:
        """Count a call that ended with an error after `seconds`."""
        end = kind_of_end(error)
        self.durations[end].observe(seconds)
        if end == Code.INTERNAL.value:
            # The text of any other exception may contain paths, and this one is sent to clients.
            text = error.message if isinstance(error, InferstreamError) else type(error).__name__
            raised = describe_cause(error)
            self.last_failure = time.time(), text, raised and raised.rstrip().rpartition("\n")[2]

    def count_early_end(self) -> None:
        """Count a call that was cancelled before it was opened."""
        self.queue.count_early_exit(expired=False)
        self.durations["cancelled"].observe(0.0)
