"""Meters as plain numbers. A scrape turns them into Prometheus families."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import chain
from typing import Protocol, Self, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from . import compute, queues
from .custom import CUSTOM
from .histogram import SECONDS, Bounds, Buckets, Histogram
from .rpcs import GrpcMeters

CONTENT_TYPE = CONTENT_TYPE_LATEST

DEFAULT = Buckets()


class StageMeters(Protocol):
    """The numbers of one stage of one model; made without arguments."""

    @classmethod
    def collect(cls, found: Iterable[tuple[list[str], Self]]) -> Iterable[Metric]:
        """The families of these models' meters, each with the model's name and version."""


OfStage = TypeVar("OfStage", bound=StageMeters)


class StreamMeters:
    """Responses in streams, the seconds to the first, and the seconds between them."""

    def __init__(self, buckets: Buckets) -> None:
        self.items = 0
        self.first = Histogram(buckets.first_item)
        self.gaps = Histogram(buckets.between_items)


class ModelMeters:
    def __init__(self, model: str, version: str | None, buckets: Buckets = DEFAULT) -> None:
        self.labels = [model, version or ""]
        self._bounds = buckets.requests
        self.in_flight = 0
        self.load_seconds: float | None = None
        """Seconds that the load of the version which serves took; None where another process measures it."""
        self.durations: dict[str, Histogram] = {}
        """Seconds of calls, by how they ended."""
        self.waited = 0.0
        """Seconds that successful calls waited."""
        self.last: float | None = None
        """When the last call came, on the clock of `perf_counter`."""
        self.streams = StreamMeters(buckets)
        self.queue = queues.QueueMeters()
        self.stages: dict[type[StageMeters], StageMeters] = {}
        """The meters of single stages, for stages that have asked for them."""
        self.compute: compute.ComputeMeters | None = None

    @property
    def ends(self) -> dict[str, int]:
        """Calls by how they ended."""
        return {end: durations.count for end, durations in self.durations.items()}

    def computing(self) -> compute.ComputeMeters:
        """Count executions apart from calls from now on."""
        self.compute = self.executions()
        return self.compute

    def executions(self) -> compute.ComputeMeters:
        """The executions so far. Where they are not counted apart, each successful call was one."""
        if self.compute is not None:
            return self.compute
        won = self.durations.get("success")
        return (
            compute.ComputeMeters()
            if won is None
            else compute.ComputeMeters(won.count, won.total - self.waited)
        )

    def of(self, kind: type[OfStage]) -> OfStage:
        meters = self.stages.setdefault(kind, kind())
        assert isinstance(meters, kind)
        return meters

    def ended(self, seconds: float, kind: str, waited: float = 0.0) -> None:
        """A call ended after `seconds` with `kind`: `success`, or the code of its error."""
        durations = self.durations.get(kind)
        if durations is None:
            durations = self.durations[kind] = Histogram(self._bounds)
        durations.observe(seconds)
        if waited and kind == "success":
            self.waited += waited

    def left_unopened(self) -> None:
        """A call was cancelled before it was opened."""
        self.queue.left(expired=False)
        self.ended(0.0, "cancelled")


class DoorMeters:
    """HTTP requests by method, route template and status."""

    def __init__(self, bounds: Bounds = SECONDS) -> None:
        self._bounds = bounds
        self.requests: dict[tuple[str, str, str], Histogram] = {}
        self.in_progress = 0
        self.held = 0
        """Streams that outlive their connections."""

    def ended(self, method: str, path: str, status: str, seconds: float) -> None:
        key = (method, path, status)
        durations = self.requests.get(key)
        if durations is None:
            durations = self.requests[key] = Histogram(self._bounds)
        durations.observe(seconds)


class SocketMeters:
    """The numbers of all WebSockets. Their upgrades also count as HTTP requests."""

    __slots__ = ("open", "received", "sent")

    def __init__(self) -> None:
        self.open = self.received = self.sent = 0

    def collect(self) -> Iterator[Metric]:
        prefix = "inferstream_websocket"
        yield GaugeMetricFamily(f"{prefix}s", "WebSockets that are open", value=self.open)
        yield CounterMetricFamily(f"{prefix}_messages_received", "Messages received", value=self.received)
        yield CounterMetricFamily(f"{prefix}_messages_sent", "Messages sent", value=self.sent)


class Meters(Collector):
    """Every meter of the server. Prometheus calls `collect` at a scrape."""

    def __init__(self, rest_prefix: str = "rest_server", buckets: Buckets = DEFAULT) -> None:
        self._buckets = buckets
        self.models: dict[tuple[str, str | None], ModelMeters] = {}
        self.rest = DoorMeters(buckets.requests)
        self.grpc = GrpcMeters(buckets.requests)
        self.sockets = SocketMeters()
        self._shown: dict[type[StageMeters], Collector | None] = {}
        self.elsewhere: Callable[[], Awaitable[bytes]] | None = None
        """Fetches the meters of the whole server, where other processes serve too."""
        self._rest_prefix = rest_prefix
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(CUSTOM)

    def add(self, collector: Collector) -> None:
        self._registry.register(collector)

    def of(self, model: str, version: str | None) -> ModelMeters:
        """The meters of a model. They survive its reloads, as counters must."""
        return self.models.setdefault((model, version), ModelMeters(model, version, self._buckets))

    def show(self, kind: type[StageMeters], shared: Collector | None = None) -> None:
        """Show the families of a stage from now on, even without models that have any, and what its models share.

        Other families appear after these, with the first model that has them.
        """
        self._shown[kind] = shared

    def exposition(self) -> bytes:
        """All meters of this process in Prometheus' text format."""
        return generate_latest(self._registry)

    async def scrape(self) -> bytes:
        """All meters of the server in Prometheus' text format."""
        return self.exposition() if self.elsewhere is None else await self.elsewhere()

    def families(self) -> Iterable[Metric]:
        return self._registry.collect()

    async def everywhere(self) -> Iterable[Metric]:
        """The server's own meters, of all its processes."""
        if self.elsewhere is None:
            return self.collect()
        from prometheus_client.parser import (
            text_string_to_metric_families,
        )  # late: for several processes alone

        text = (await self.elsewhere()).decode()
        return await asyncio.to_thread(lambda: list(text_string_to_metric_families(text)))

    def collect(self) -> Iterable[Metric]:
        yield from self._collect_models()
        yield from compute.collect((model.labels, model.executions()) for model in self.models.values())
        yield from self._collect_streams()
        yield from queues.collect(
            (model.labels, model.in_flight, model.queue) for model in self.models.values()
        )
        yield from self._collect_stages()
        yield from self._collect_rest()
        yield from self.grpc.collect()
        yield from self.sockets.collect()

    def _collect_stages(self) -> Iterator[Metric]:
        models = self.models.values()
        for kind in dict.fromkeys(chain(self._shown, *(model.stages for model in models))):
            yield from kind.collect(
                (model.labels, model.stages[kind]) for model in models if kind in model.stages
            )
            if (shared := self._shown.get(kind)) is not None:
                yield from shared.collect()

    def _collect_models(self) -> Iterator[Metric]:
        names = ["model", "version"]
        success = CounterMetricFamily("model_infer_request_success", "Calls answered in full", labels=names)
        failure = CounterMetricFamily(
            "model_infer_request_failure", "Calls that ended in an error", labels=names
        )
        duration = SummaryMetricFamily("model_infer_request_duration", "Seconds per call", labels=names)
        failed = CounterMetricFamily(
            "inferstream_failed_call_seconds", "Seconds of calls that ended in an error", labels=names
        )
        ends = CounterMetricFamily("inferstream_calls", "Calls by how they ended", labels=[*names, "end"])
        running = GaugeMetricFamily("inferstream_calls_in_progress", "Calls waiting or running", labels=names)
        loads = GaugeMetricFamily(
            "inferstream_model_load_seconds", "Seconds that the model took to load", labels=names
        )
        seconds = HistogramMetricFamily("inferstream_call_seconds", "Seconds from call to end", labels=names)
        for meters in self.models.values():
            labels = meters.labels
            every, won = Histogram(self._buckets.requests), Histogram(self._buckets.requests)
            for end, durations in meters.durations.items():
                ends.add_metric([*labels, end], durations.count)
                every.add(durations.counts, durations.total)
                if end == "success":
                    won = durations
            success.add_metric(labels, won.count)
            failure.add_metric(labels, every.count - won.count)
            duration.add_metric(labels, every.count, every.total)
            failed.add_metric(labels, every.total - won.total)
            running.add_metric(labels, meters.in_flight)
            seconds.add_metric(labels, every.buckets(), every.total)
            if meters.load_seconds is not None:
                loads.add_metric(labels, meters.load_seconds)
        yield from (success, failure, duration, failed, ends, running, seconds, loads)

    def _collect_streams(self) -> Iterable[Metric]:
        names = ["model", "version"]
        items = CounterMetricFamily("inferstream_stream_items", "Responses sent in streams", labels=names)
        first = HistogramMetricFamily(
            "inferstream_time_to_first_item_seconds",
            "Seconds from call to a stream's first response",
            labels=names,
        )
        gaps = HistogramMetricFamily(
            "inferstream_time_between_items_seconds",
            "Seconds from one response of a stream to the next, its reader's included",
            labels=names,
        )
        for model in self.models.values():
            labels, meters = model.labels, model.streams
            items.add_metric(labels, meters.items)
            first.add_metric(labels, meters.first.buckets(), meters.first.total)
            gaps.add_metric(labels, meters.gaps.buckets(), meters.gaps.total)
        return (items, first, gaps)

    def _collect_rest(self) -> Iterator[Metric]:
        prefix = self._rest_prefix
        names = ["app_name", "method", "path", "status_code"]
        requests = CounterMetricFamily(f"{prefix}_requests", "HTTP requests", labels=names)
        seconds = HistogramMetricFamily(
            f"{prefix}_request_duration_seconds", "Seconds per HTTP request", labels=names
        )
        for (method, path, status), durations in self.rest.requests.items():
            labels = ["inferstream", method, path, status]
            requests.add_metric(labels, sum(durations.counts))
            seconds.add_metric(labels, durations.buckets(), durations.total)
        yield requests
        yield seconds
        yield GaugeMetricFamily(
            f"{prefix}_requests_in_progress", "HTTP requests running", value=self.rest.in_progress
        )
        yield GaugeMetricFamily(
            "inferstream_held_streams", "Streams that their clients may resume", value=self.rest.held
        )
