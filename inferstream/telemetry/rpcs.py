"""Meters of gRPC, with the names of py-grpc-prometheus, which MLServer uses."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from .histogram import SECONDS, Bounds, Histogram

LABELS = ["grpc_type", "grpc_service", "grpc_method"]

UNLOGGED = ("Check", "List", "Watch", "ServerLive", "ServerReady", "ModelReady")
"""Frequent RPCs of probes, which logs and traces omit."""


class RpcMeters:
    __slots__ = ("duration", "ends", "kind", "labels", "name", "received", "sent", "started", "unlogged")

    def __init__(self, kind: str, service: str, method: str, bounds: Bounds = SECONDS) -> None:
        self.kind = kind
        self.labels = [kind, service, method]
        self.name = f"{service}/{method}"
        self.unlogged = method in UNLOGGED
        """Whether logs and traces omit it."""
        self.started = 0
        self.received = 0
        self.sent = 0
        self.ends: dict[str, int] = {}
        self.duration = Histogram(bounds)

    @property
    def path(self) -> str:
        return f"/{self.name}"

    def ended(self, status: str, seconds: float) -> None:
        self.ends[status] = self.ends.get(status, 0) + 1
        self.duration.observe(seconds)


class GrpcMeters:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._rpcs: list[RpcMeters] = []

    def of(self, kind: str, service: str, method: str) -> RpcMeters:
        self._rpcs.append(RpcMeters(kind, service, method, self._bounds))
        return self._rpcs[-1]

    def collect(self) -> Iterator[Metric]:
        """The families of all RPCs, without RPCs that were never called."""
        started = CounterMetricFamily("grpc_server_started", "RPCs begun", labels=LABELS)
        received = CounterMetricFamily("grpc_server_msg_received", "Messages received", labels=LABELS)
        sent = CounterMetricFamily("grpc_server_msg_sent", "Messages sent", labels=LABELS)
        handled = CounterMetricFamily("grpc_server_handled", "RPCs by status", labels=[*LABELS, "grpc_code"])
        seconds = HistogramMetricFamily("grpc_server_handling_seconds", "Seconds per RPC", labels=LABELS)
        for rpc in self._rpcs:
            if not rpc.started:
                continue
            started.add_metric(rpc.labels, rpc.started)
            received.add_metric(rpc.labels, rpc.received)
            sent.add_metric(rpc.labels, rpc.sent)
            for status, count in rpc.ends.items():
                handled.add_metric([*rpc.labels, status], count)
            seconds.add_metric(rpc.labels, rpc.duration.buckets(), rpc.duration.total)
        yield from (started, received, sent, handled, seconds)
