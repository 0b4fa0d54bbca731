"""Meters of gRPC, under the names that py-grpc-prometheus gave them and MLServer kept."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from .histogram import SECONDS, Histogram

LABELS = ["grpc_type", "grpc_service", "grpc_method"]

UNLOGGED = ("Check", "List", "Watch", "ServerLive", "ServerReady", "ModelReady")
"""RPCs that are called all the time, by nobody who reads logs or traces."""


class RpcMeters:
    """The numbers of one RPC; what happens often is an addition to a plain number."""

    __slots__ = ("duration", "ends", "labels", "name", "received", "sent", "started", "unlogged")

    def __init__(self, kind: str, service: str, method: str) -> None:
        self.labels = [kind, service, method]
        self.name = f"{service}/{method}"
        self.unlogged = method in UNLOGGED
        """Whether its calls are no news to anybody."""
        self.started = 0
        self.received = 0
        self.sent = 0
        self.ends: dict[str, int] = {}
        self.duration = Histogram(SECONDS)

    def ended(self, status: str, seconds: float) -> None:
        """One call has ended after `seconds`, with the gRPC status of this name."""
        self.ends[status] = self.ends.get(status, 0) + 1
        self.duration.observe(seconds)


class GrpcMeters:
    """The meters of every RPC the server has."""

    def __init__(self) -> None:
        self._rpcs: list[RpcMeters] = []

    def of(self, kind: str, service: str, method: str) -> RpcMeters:
        """New meters for an RPC."""
        self._rpcs.append(RpcMeters(kind, service, method))
        return self._rpcs[-1]

    def collect(self) -> Iterator[Metric]:
        """The families of all RPCs; one that nobody has called is left out."""
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
