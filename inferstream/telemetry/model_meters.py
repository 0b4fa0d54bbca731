"""Meters of the calls of one model."""

from typing import TypeVar

from .meter_set import Buckets, Durations, Histogram, MeterSet, counter, gauge, histogram, summary
from .stages import ComputeMeters, KvMeters, QueueMeters, StepMeters, TokenMeters

DEFAULT = Buckets()


OfStage = TypeVar("OfStage", bound=MeterSet)


class StreamMeters(MeterSet):
    """Responses in streams, the seconds to the first, and the seconds between them."""

    items: int = counter(
        "inferstream_stream_items",
        "Responses sent in streams",
    )
    first: Histogram = histogram(
        "inferstream_time_to_first_item_seconds", "Seconds from call to a stream's first response"
    )
    gaps: Histogram = histogram(
        "inferstream_time_between_items_seconds",
        "Seconds from one response of a stream to the next, its reader's included",
    )

    def __init__(self, buckets: Buckets) -> None:
        super().__init__()
        self.first = Histogram(buckets.first_item)
        self.gaps = Histogram(buckets.between_items)


class ModelMeters(MeterSet):
    success = counter(
        "model_infer_request_success", "Calls answered in full", read=lambda self: self.won.count
    )
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
        """Seconds that the load of the version which serves took; None where another process measures it."""
        self.durations: Durations[str] = Durations(buckets.requests)
        """Seconds of calls by how they ended: `success`, or the code of their error."""
        self.waited = 0.0
        """Seconds that successful calls waited."""
        self.last: float | None = None
        """When the last call came, on the clock of `perf_counter`."""
        self.streams = StreamMeters(buckets)
        self.queue = QueueMeters()
        self.stages: dict[type[MeterSet], MeterSet] = {QueueMeters: self.queue}
        """The meters of single stages, for stages that have asked for them. Those of a worker are added to these."""
        self.compute: ComputeMeters | None = None

    @property
    def every(self) -> Histogram:
        """Seconds of all calls."""
        every = Histogram(self._bounds)
        for durations in self.durations.values():
            every.add(durations.counts, durations.total)
        return every

    @property
    def won(self) -> Histogram:
        """Seconds of successful calls."""
        return self.durations.get("success") or Histogram(self._bounds)

    @property
    def ends(self) -> dict[str, int]:
        """Calls by how they ended."""
        return {end: durations.count for end, durations in self.durations.items()}

    @property
    def tokens(self) -> TokenMeters | None:
        """Tokens of the calls of a model of text; None for another model."""
        meters = self.stages.get(TokenMeters)
        return meters if isinstance(meters, TokenMeters) else None

    @property
    def waiting(self) -> int:
        """Calls that wait, in the queue or for a place among the steps."""
        steps = self.stages.get(StepMeters)
        return self.queue.depth + (steps.waiting if isinstance(steps, StepMeters) else 0)

    @property
    def kv(self) -> KvMeters | None:
        """The use of the model's KV caches; None if no process reports any."""
        kv = self.stages.get(KvMeters)
        return kv if isinstance(kv, KvMeters) else None

    def computing(self) -> ComputeMeters:
        """Count executions apart from calls from now on."""
        self.compute = self.executions()
        return self.compute

    def executions(self) -> ComputeMeters:
        """The executions so far. Where they are not counted apart, each successful call was one."""
        return self.compute or ComputeMeters(self.won.count, self.won.total - self.waited)

    def of(self, kind: type[OfStage]) -> OfStage:
        meters = self.stages.setdefault(kind, kind())
        assert isinstance(meters, kind)
        return meters

    def left_unopened(self) -> None:
        """A call was cancelled before it was opened."""
        self.queue.left(expired=False)
        self.durations["cancelled"].observe(0.0)
