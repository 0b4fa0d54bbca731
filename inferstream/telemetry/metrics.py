"""Meters as plain numbers, turned into Prometheus families only when somebody scrapes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

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

from . import batches, caches, compute, queues, steps, streams
from .custom import CUSTOM
from .durations import Durations
from .rpcs import GrpcMeters
from .sockets import SocketMeters

CONTENT_TYPE = CONTENT_TYPE_LATEST


class ModelMeters:
    """The numbers of one version of one model."""

    def __init__(self, model: str, version: str | None) -> None:
        self.labels = [model, version or ""]
        self.in_flight = 0
        self.ends: dict[str, int] = {}
        self.duration = Durations()
        self.failed = 0.0
        """Seconds of the calls that did not end well."""
        self.waited = 0.0
        """Seconds for which the others waited for their turn."""
        self.last: float | None = None
        """When the last call came, on the clock of `perf_counter`."""
        self.streams = streams.StreamMeters()
        self.queue = queues.QueueMeters()
        self.compute: compute.ComputeMeters | None = None
        self.batches: batches.BatchMeters | None = None
        self.cache: caches.CacheMeters | None = None
        self.steps: steps.StepMeters | None = None

    def computing(self) -> compute.ComputeMeters:
        """The meters of this model's executions, where they are counted apart from calls from now on."""
        self.compute = self.executions()
        return self.compute

    def executions(self) -> compute.ComputeMeters:
        """The executions so far. Where nothing counts them apart, each call that ended well was one."""
        if self.compute is not None:
            return self.compute
        seconds = self.duration.total - self.failed - self.waited
        return compute.ComputeMeters(self.ends.get("success", 0), seconds)

    def batching(self) -> batches.BatchMeters:
        """The meters of this model's batches; a model that has none shows none."""
        if self.batches is None:
            self.batches = batches.BatchMeters()
        return self.batches

    def caching(self) -> caches.CacheMeters:
        """The meters of this model's use of the response cache; a model that does not use it shows none."""
        if self.cache is None:
            self.cache = caches.CacheMeters()
        return self.cache

    def stepping(self) -> steps.StepMeters:
        """The meters of this model's steps; a model that has none shows none."""
        if self.steps is None:
            self.steps = steps.StepMeters()
        return self.steps

    def ended(self, seconds: float, kind: str, waited: float = 0.0) -> None:
        """One call has ended after `seconds`, as `kind`: `success`, or the code of its error."""
        self.ends[kind] = self.ends.get(kind, 0) + 1
        self.duration.observe(seconds)
        if kind != "success":
            self.failed += seconds
        elif waited:
            self.waited += waited

    def left_unopened(self) -> None:
        """A call was cancelled before anything was done for it."""
        self.queue.left(expired=False)
        self.ended(0.0, "cancelled")


class DoorMeters:
    """HTTP requests by method, route template and status."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, str], Durations] = {}
        self.in_progress = 0

    def ended(self, method: str, path: str, status: str, seconds: float) -> None:
        key = (method, path, status)
        durations = self.requests.get(key)
        if durations is None:
            durations = self.requests[key] = Durations()
        durations.observe(seconds)


class Meters(Collector):
    """Every meter of the server; Prometheus calls `collect` at a scrape."""

    def __init__(self, rest_prefix: str = "rest_server") -> None:
        self.models: dict[tuple[str, str | None], ModelMeters] = {}
        self.rest = DoorMeters()
        self.grpc = GrpcMeters()
        self.sockets = SocketMeters()
        self.store: caches.StoreMeters | None = None
        self.elsewhere: Callable[[], Awaitable[bytes]] | None = None
        """Who knows the meters of the whole server, where this process is not all of it."""
        self._rest_prefix = rest_prefix
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(CUSTOM)

    def add(self, collector: Collector) -> None:
        """Scrape these meters too."""
        self._registry.register(collector)

    def of(self, model: str, version: str | None) -> ModelMeters:
        """The meters of a model; they outlive its reloads, as counters must."""
        return self.models.setdefault((model, version), ModelMeters(model, version))

    def caching(self) -> caches.StoreMeters:
        """The meters of what the response cache holds; a server that has none shows none."""
        self.store = caches.StoreMeters()
        return self.store

    def exposition(self) -> bytes:
        """All meters of this process in Prometheus' text format."""
        return generate_latest(self._registry)

    async def scrape(self) -> bytes:
        """All meters of the server in Prometheus' text format."""
        return self.exposition() if self.elsewhere is None else await self.elsewhere()

    def families(self) -> Iterable[Metric]:
        """All meters of this process."""
        return self._registry.collect()

    async def everywhere(self) -> Iterable[Metric]:
        """The meters of the server's own, of all its processes."""
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
        yield from streams.collect((model.labels, model.streams) for model in self.models.values())
        yield from queues.collect(
            (model.labels, model.in_flight, model.queue) for model in self.models.values()
        )
        yield from batches.collect(
            (model.labels, model.batches) for model in self.models.values() if model.batches is not None
        )
        if self.store is not None:
            users = ((model.labels, model.cache) for model in self.models.values() if model.cache is not None)
            yield from caches.collect(users, self.store)
        yield from steps.collect(
            (model.labels, model.steps) for model in self.models.values() if model.steps is not None
        )
        yield from self._collect_rest()
        yield from self.grpc.collect()
        yield from self.sockets.collect()

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
        seconds = HistogramMetricFamily("inferstream_call_seconds", "Seconds from call to end", labels=names)
        for meters in self.models.values():
            labels = meters.labels
            total = sum(meters.ends.values())
            won = meters.ends.get("success", 0)
            success.add_metric(labels, won)
            failure.add_metric(labels, total - won)
            duration.add_metric(labels, total, meters.duration.total)
            failed.add_metric(labels, meters.failed)
            for end, count in meters.ends.items():
                ends.add_metric([*labels, end], count)
            running.add_metric(labels, meters.in_flight)
            seconds.add_metric(labels, meters.duration.buckets(), meters.duration.total)
        yield from (success, failure, duration, failed, ends, running, seconds)

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
