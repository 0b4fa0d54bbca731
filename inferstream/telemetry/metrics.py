"""Meters as plain numbers, turned into Prometheus families only when somebody scrapes."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

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

from .custom import CUSTOM

CONTENT_TYPE = CONTENT_TYPE_LATEST
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds in seconds."""


class Durations:
    """A histogram of seconds; one bisect per observation, where prometheus_client takes a lock and a label look-up."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by upper bound, as the exposition format wants them."""
        found, running = [], 0
        for bound, count in zip((*BUCKETS, float("inf")), self.counts, strict=True):
            running += count
            found.append(("+Inf" if bound == float("inf") else str(bound), float(running)))
        return found


class ModelMeters:
    """The numbers of one version of one model."""

    def __init__(self, model: str, version: str | None) -> None:
        self.labels = [model, version or ""]
        self.in_flight = 0
        self.stream_items = 0
        self.ends: dict[str, int] = {}
        self.duration = Durations()
        self.first_item = Durations()

    def ended(self, seconds: float, kind: str) -> None:
        """One call has ended after `seconds`, as `kind`: `success`, or the code of its error."""
        self.ends[kind] = self.ends.get(kind, 0) + 1
        self.duration.observe(seconds)


class DoorMeters:
    """Requests of one transport by method, route template and status."""

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
        self.grpc = DoorMeters()
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

    def exposition(self) -> bytes:
        """All meters in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        yield from self._collect_models()
        yield from self._collect_rest()
        yield from self._collect_grpc()

    def _collect_models(self) -> Iterator[Metric]:
        names = ["model", "version"]
        success = CounterMetricFamily("model_infer_request_success", "Calls answered in full", labels=names)
        failure = CounterMetricFamily(
            "model_infer_request_failure", "Calls that ended in an error", labels=names
        )
        duration = SummaryMetricFamily("model_infer_request_duration", "Seconds per call", labels=names)
        ends = CounterMetricFamily("inferstream_calls", "Calls by how they ended", labels=[*names, "end"])
        running = GaugeMetricFamily("inferstream_calls_in_progress", "Calls waiting or running", labels=names)
        items = CounterMetricFamily("inferstream_stream_items", "Responses sent in streams", labels=names)
        seconds = HistogramMetricFamily("inferstream_call_seconds", "Seconds from call to end", labels=names)
        first = HistogramMetricFamily(
            "inferstream_time_to_first_item_seconds",
            "Seconds from call to a stream's first response",
            labels=names,
        )
        for meters in self.models.values():
            labels = meters.labels
            total = sum(meters.ends.values())
            won = meters.ends.get("success", 0)
            success.add_metric(labels, won)
            failure.add_metric(labels, total - won)
            duration.add_metric(labels, total, meters.duration.total)
            for end, count in meters.ends.items():
                ends.add_metric([*labels, end], count)
            running.add_metric(labels, meters.in_flight)
            items.add_metric(labels, meters.stream_items)
            seconds.add_metric(labels, meters.duration.buckets(), meters.duration.total)
            first.add_metric(labels, meters.first_item.buckets(), meters.first_item.total)
        yield from (success, failure, duration, ends, running, items, seconds, first)

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

    def _collect_grpc(self) -> Iterator[Metric]:
        names = ["grpc_type", "grpc_service", "grpc_method"]
        handled = CounterMetricFamily("grpc_server_handled", "RPCs by status", labels=[*names, "grpc_code"])
        seconds = HistogramMetricFamily("grpc_server_handling_seconds", "Seconds per RPC", labels=names)
        for (kind, method, code), durations in self.grpc.requests.items():
            service, _, name = method.strip("/").rpartition("/")
            handled.add_metric([kind, service, name, code], sum(durations.counts))
        for (kind, method), durations in _by_method(self.grpc).items():
            service, _, name = method.strip("/").rpartition("/")
            seconds.add_metric([kind, service, name], durations.buckets(), durations.total)
        yield handled
        yield seconds


def _by_method(door: DoorMeters) -> dict[tuple[str, str], Durations]:
    merged: dict[tuple[str, str], Durations] = {}
    for (kind, method, _), durations in door.requests.items():
        sums = merged.setdefault((kind, method), Durations())
        sums.counts = [a + b for a, b in zip(sums.counts, durations.counts, strict=True)]
        sums.total += durations.total
    return merged
