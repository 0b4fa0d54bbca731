"""All meters of the server, converted to Prometheus metric families at scrape time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from .custom import CUSTOM
from .families import families
from .inflight import InflightMeters
from .meter_set import SECONDS, Bounds, Buckets, Durations, MeterSet, Single, counter, gauge, histogram
from .model_meters import DEFAULT, ModelMeters, StreamMeters
from .rpcs import RpcMeters
from .stages import ComputeMeters, QueueMeters

CONTENT_TYPE = CONTENT_TYPE_LATEST


class DoorMeters(MeterSet):
    """HTTP requests by method, route template and status. The prefix of their names is a setting."""

    label_names = ("app_name",)

    counts = counter(
        "rest_server_requests",
        "HTTP requests",
        by=("method", "path", "status_code"),
        read=lambda self: {key: durations.count for key, durations in self.requests.items()},
    )
    seconds = histogram(
        "rest_server_request_duration_seconds",
        "Seconds per HTTP request",
        by=("method", "path", "status_code"),
        read=lambda self: self.requests,
    )
    in_progress: int = gauge("rest_server_requests_in_progress", "HTTP requests in progress", labels=())
    held: int = gauge("inferstream_held_streams", "Streams that their clients may resume", labels=())

    def __init__(self, bounds: Bounds = SECONDS) -> None:
        super().__init__()
        self.requests: Durations[tuple[str, str, str]] = Durations(bounds)


class SocketMeters(Single):
    """Meters of all WebSocket connections. Their upgrade requests also count as HTTP requests."""

    open: int = gauge("inferstream_websockets", "Open WebSockets")
    received: int = counter("inferstream_websocket_messages_received", "Messages received")
    sent: int = counter("inferstream_websocket_messages_sent", "Messages sent")


class Meters(Collector):
    """All meters of the server. The registry calls `collect` at scrape time."""

    def __init__(self, rest_prefix: str = "rest_server", buckets: Buckets = DEFAULT) -> None:
        self._buckets = buckets
        self.models: dict[tuple[str, str | None], ModelMeters] = {}
        self.rest = DoorMeters(buckets.requests)
        self.rpcs: list[RpcMeters] = []
        self.sockets = SocketMeters()
        self.shared: list[Single] = [self.sockets]
        """The meters that belong to no model, such as the meters of the workers."""
        self._inflight = InflightMeters()
        self.inflight = self._inflight.bytes
        self._shown: dict[type[MeterSet], Collector | None] = {QueueMeters: None}
        self.elsewhere: Callable[[], Awaitable[bytes]] | None = None
        """Fetches the metrics of the whole server, if it consists of several processes."""
        self.more: list[Callable[[], Awaitable[bytes]]] = []
        """Functions that return additional text for a scrape. They are called before the meters are read."""
        self._rest_prefix = rest_prefix
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._registry.register(CUSTOM)

    def add(self, collector: Collector | Single) -> None:
        if isinstance(collector, Single):
            self.shared.append(collector)
        self._registry.register(collector)

    def of(self, model: str, version: str | None) -> ModelMeters:
        """Return the meters of a model. They survive reloads, because counters must not decrease."""
        return self.models.setdefault((model, version), ModelMeters(model, version, self._buckets))

    def rpc(self, kind: str, service: str, method: str) -> RpcMeters:
        """Create the meters of an RPC."""
        self.rpcs.append(RpcMeters(kind, service, method, self._buckets.requests))
        return self.rpcs[-1]

    def show(self, kind: type[MeterSet], shared: Collector | None = None) -> None:
        """Include the families of a stage in every scrape, even without models that have it.

        `shared` collects the metrics that all models with the stage share. Families of other stages follow
        these, once a model has the stage.
        """
        self._shown[kind] = shared

    def exposition(self) -> bytes:
        """Return all meters of this process in the Prometheus text format."""
        return generate_latest(self._registry)

    async def scrape(self) -> bytes:
        """Return all meters of the server in the Prometheus text format."""
        return self.exposition() if self.elsewhere is None else await self.elsewhere()

    def families(self) -> Iterable[Metric]:
        return self._registry.collect()

    async def everywhere(self) -> Iterable[Metric]:
        """Return the server's own metrics, summed over all of its processes."""
        if self.elsewhere is None:
            return self.collect()
        from prometheus_client.parser import (
            text_string_to_metric_families,
        )  # imported lazily: only for several processes

        text = (await self.elsewhere()).decode()
        return await asyncio.to_thread(lambda: list(text_string_to_metric_families(text)))

    def collect(self) -> Iterable[Metric]:
        models = self.models.values()
        for model in models:
            model.queue.active = max(model.in_flight - model.queue.depth, 0)
        yield from families(ModelMeters, ((model.labels, model) for model in models))
        yield from families(ComputeMeters, ((model.labels, model.executions()) for model in models))
        yield from families(StreamMeters, ((model.labels, model.streams) for model in models))
        for kind in dict.fromkeys(chain(self._shown, *(model.stages for model in models))):
            of_kind = ((model.labels, model.stages[kind]) for model in models if kind in model.stages)
            yield from families(kind, of_kind)
            if (shared := self._shown.get(kind)) is not None:
                yield from shared.collect()
        yield from families(DoorMeters, [(["inferstream"], self.rest)], self._rest_prefix)
        yield from families(RpcMeters, ((rpc.labels, rpc) for rpc in self.rpcs if rpc.started))
        yield from self.sockets.collect()
        yield from self._inflight.collect()
