"""Metrics for an OpenTelemetry collector. Imported only if the settings name a collector."""

import asyncio
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from time import time_ns
from typing import Any, Protocol, TypeVar

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from inferstream.ext.http import Edge
from inferstream.ext.telemetry import Meters

from .gen_ai import choose_names, model_attributes
from .resource import build_resource

logger = logging.getLogger("inferstream.push")

LAST = 2.0
"""Seconds for the last export."""

Labels = dict[str, str]

Value = TypeVar("Value")

Series = Sequence[tuple[Labels, Value]]
"""The values of one metric with their labels."""


class Observed(Protocol):
    """A histogram that the server already keeps for Prometheus."""

    @property
    def bounds(self) -> Sequence[float]: ...

    @property
    def counts(self) -> Sequence[int]:
        """Observations per bucket. The last bucket has no upper bound."""

    @property
    def count(self) -> int: ...

    @property
    def total(self) -> float: ...


class MetricPush(Edge):
    """Periodically exports the metrics of this process. They are already counted for Prometheus."""

    def __init__(self, meters: Meters, endpoint: str, name: str, version: str, interval: float) -> None:
        self._meters = meters
        self._interval = interval
        self._exporter = OTLPMetricExporter(endpoint=endpoint, insecure=not endpoint.startswith("https://"))
        instance = f"{socket.gethostname()}-{os.getpid()}"
        self._resource = build_resource(
            {"service.name": name, "service.version": version, "service.instance.id": instance}
        )
        self._scope = InstrumentationScope("inferstream", version)
        self._began = time_ns()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Export periodically until `stop` is called."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Export the last values, for at most `LAST` seconds."""
        if self._task is not None:
            self._task.cancel()
        pushing = asyncio.create_task(self._push())
        await asyncio.wait([pushing], timeout=LAST)
        self._exporter.shutdown(timeout_millis=0)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self._push()

    async def _push(self) -> None:
        try:
            await asyncio.to_thread(self._exporter.export, self._data())
        except Exception:  # The exporter itself logs an unavailable collector.
            logger.exception("pushing metrics failed")

    def _data(self) -> MetricsData:
        metrics = [*self._call_metrics(), *self._text_metrics()]
        scope = ScopeMetrics(self._scope, [metric for metric in metrics if metric.data.data_points], "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _call_metrics(self) -> Iterator[Metric]:
        """Yield counts and durations of the calls of all models."""
        models = [
            ({"model.name": meters.labels[0], "model.version": meters.labels[1]}, meters)
            for meters in self._meters.models.values()
        ]
        ends = [
            ({**labels, "call.end": end}, count)
            for labels, each in models
            for end, count in each.ends.items()
        ]
        running = [(labels, each.in_flight) for labels, each in models]
        seconds = [
            ({**labels, "call.end": end}, histogram)
            for labels, each in models
            for end, histogram in each.durations.items()
        ]
        items = [(labels, each.streams.items) for labels, each in models]
        yield self._sum("inferstream.calls", "Calls by how they ended", "{call}", ends)
        yield self._sum(
            "inferstream.calls.in_progress", "Calls waiting or running", "{call}", running, falls=True
        )
        yield self._histogram("inferstream.call.duration", "Seconds from call to end", "s", seconds)
        yield self._sum("inferstream.stream.items", "Responses sent in streams", "{item}", items)

    def _text_metrics(self) -> Iterator[Metric]:
        """Yield the OpenTelemetry metrics for generative AI, for text models."""
        texts = [
            (model_attributes(meters.labels[0], meters.tokens.operation), meters, meters.tokens)
            for meters in self._meters.models.values()
            if meters.tokens is not None and meters.tokens.operation
        ]
        durations = [
            (labels if end == "success" else {**labels, "error.type": end}, seconds)
            for labels, meters, _ in texts
            for end, seconds in meters.durations.items()
        ]
        used = [
            (labels, kind, histogram)
            for labels, _, tokens in texts
            for kind, histogram in (("input", tokens.input), ("output", tokens.output))
            if histogram.count
        ]
        first = [(labels, meters.streams.first) for labels, meters, _ in texts]
        gaps = [(labels, meters.streams.gaps) for labels, meters, _ in texts]
        for name, description, unit, series in (
            ("gen_ai.server.request.duration", "Seconds from call to end", "s", durations),
            ("gen_ai.server.time_to_first_token", "Seconds from call to the first response", "s", first),
            ("gen_ai.server.time_per_output_token", "Seconds between responses", "s", gaps),
        ):
            yield self._histogram(name, description, unit, series)
        yield from self._usage_metrics(used)

    def _usage_metrics(self, used: Sequence[tuple[Labels, str, Observed]]) -> Iterator[Metric]:
        names = choose_names()
        if names.old:
            old = [({**labels, "gen_ai.token.type": kind}, histogram) for labels, kind, histogram in used]
            yield self._histogram("gen_ai.client.token.usage", "Tokens of a call", "{token}", old)
        for kind in ("input", "output") if names.new else ():
            series = [(labels, histogram) for labels, each, histogram in used if each == kind]
            # Prompts may contain images and audio, whose tokens are not counted separately.
            modality = {"gen_ai.token.modality": "unknown" if kind == "input" else "text"}
            sums = [({**labels, **modality}, int(histogram.total)) for labels, histogram in series]
            prefix, description = "gen_ai.client.inference", f"{kind.title()} tokens"
            yield self._sum(f"{prefix}.usage.{kind}_tokens", description, "{token}", sums)
            yield self._histogram(
                f"{prefix}.operation.{kind}_tokens", f"{description} of a call", "{token}", series
            )

    def _sum(
        self, name: str, description: str, unit: str, series: Series[int], *, falls: bool = False
    ) -> Metric:
        """Return a monotonic counter, or a value that can decrease if `falls` is set."""
        now = time_ns()
        points = [NumberDataPoint(labels, self._began, now, number) for labels, number in series]
        return Metric(
            name, description, unit, Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=not falls)
        )

    def _histogram(self, name: str, description: str, unit: str, series: Series[Observed]) -> Metric:
        now = time_ns()
        points = [self._point(labels, histogram, now) for labels, histogram in series]
        return Metric(name, description, unit, Histogram(points, AggregationTemporality.CUMULATIVE))

    def _point(self, labels: Labels, histogram: Observed, now: int) -> HistogramDataPoint:
        unknown: Any = None  # The protocol allows a missing value, but the library's type does not.
        return HistogramDataPoint(
            labels,
            self._began,
            now,
            histogram.count,
            histogram.total,
            [*histogram.counts],
            [*histogram.bounds],
            min=unknown,
            max=unknown,
        )
