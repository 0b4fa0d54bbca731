"""Metrics for an OpenTelemetry collector. Imported only if the settings name one."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterator
from time import time_ns
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramPoints
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from inferstream.ext.http import Edge
from inferstream.ext.telemetry import Meters
from inferstream.plugins.otel.resource import build_resource

from .meter_set import Histogram, MeterSet
from .model_meters import ModelMeters, StreamMeters
from .stages import PROVIDER, TokenMeters

logger = logging.getLogger("inferstream.push")

LAST = 2.0
"""Seconds for the last push to reach its collector."""

Labels = dict[str, str]


class MetricPush(Edge):
    """Sends the calls of this process at an interval. Counting costs nothing, because the numbers are there anyway."""

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
        """Push until `stop`."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Push what has happened since the last push, for at most `LAST` seconds."""
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
        except Exception:  # of the exporter, which logs a collector that is gone itself
            logger.exception("metrics cannot be pushed")

    def _data(self) -> MetricsData:
        now = time_ns()
        metrics = [
            *self._declared(ModelMeters, lambda meters: meters, now),
            *self._declared(StreamMeters, lambda meters: meters.streams, now),
            *self._generative(now),
        ]
        scope = ScopeMetrics(self._scope, [metric for metric in metrics if metric.data.data_points], "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _declared(
        self, kind: type[MeterSet], of: Callable[[ModelMeters], MeterSet], now: int
    ) -> Iterator[Metric]:
        """What the sets of this kind declare for a collector."""
        for attribute, meter in kind.declared.items():
            if meter.pushed is not None:
                labels = [f"call.{label}" for label in meter.by]
                series = [
                    ({**_labels(meters), **dict(zip(labels, key, strict=True))}, value)
                    for meters in self._meters.models.values()
                    for key, value in of(meters).series(attribute).items()
                ]
                name, unit = meter.pushed
                yield Metric(name, meter.help, unit, self._data_of(meter.kind, series, now))

    def _data_of(self, kind: str, series: list[tuple[Labels, Any]], now: int) -> HistogramPoints | Sum:
        if kind == "histogram":
            points = [self._point(labels, value, now) for labels, value in series]
            return HistogramPoints(points, AggregationTemporality.CUMULATIVE)
        numbers = [NumberDataPoint(labels, self._began, now, value) for labels, value in series]
        return Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=kind == "counter")

    def _generative(self, now: int) -> Iterator[Metric]:
        """OpenTelemetry's metrics of generative models, for models of text."""
        texts = [
            (_gen_ai_labels(meters, tokens.operation), meters, tokens)
            for meters in self._meters.models.values()
            if isinstance(tokens := meters.stages.get(TokenMeters), TokenMeters) and tokens.operation
        ]
        durations = [
            self._point(labels if end == "success" else {**labels, "error.type": end}, seconds, now)
            for labels, meters, _ in texts
            for end, seconds in meters.durations.items()
        ]
        first = [self._point(labels, meters.streams.first, now) for labels, meters, _ in texts]
        gaps = [self._point(labels, meters.streams.gaps, now) for labels, meters, _ in texts]
        used = [
            self._point({**labels, "gen_ai.token.type": kind}, tokens, now)
            for labels, _, meters in texts
            for kind, tokens in (("input", meters.input), ("output", meters.output))
            if tokens.count
        ]
        for name, description, unit, points in (
            ("gen_ai.server.request.duration", "Seconds from call to end", "s", durations),
            ("gen_ai.server.time_to_first_token", "Seconds from call to the first response", "s", first),
            ("gen_ai.server.time_per_output_token", "Seconds between responses", "s", gaps),
            ("gen_ai.client.token.usage", "Tokens of a call", "{token}", used),
        ):
            histogram = HistogramPoints(points, AggregationTemporality.CUMULATIVE)
            yield Metric(name, description, unit, histogram)

    def _point(self, labels: Labels, histogram: Histogram, now: int) -> HistogramDataPoint:
        unknown: Any = None  # the protocol allows it, the class of the library does not say so
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


def _labels(meters: ModelMeters) -> Labels:
    model, version = meters.labels
    return {"model.name": model, "model.version": version}


def _gen_ai_labels(meters: ModelMeters, operation: str) -> Labels:
    model, _ = meters.labels
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
    }
