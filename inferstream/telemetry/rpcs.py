"""gRPC meters with the names of py-grpc-prometheus, which MLServer uses."""

from . import probes
from .meter_set import SECONDS, Bounds, Histogram, MeterSet, counter, histogram


class RpcMeters(MeterSet):
    """The meters of one RPC."""

    label_names = ("grpc_type", "grpc_service", "grpc_method")

    started: int = counter("grpc_server_started", "RPCs started")
    received: int = counter("grpc_server_msg_received", "Messages received")
    sent: int = counter("grpc_server_msg_sent", "Messages sent")
    handled = counter("grpc_server_handled", "RPCs by status", by=("grpc_code",), read=lambda self: self.ends)
    duration: Histogram = histogram("grpc_server_handling_seconds", "Seconds per RPC")

    def __init__(self, kind: str, service: str, method: str, bounds: Bounds = SECONDS) -> None:
        super().__init__()
        self.kind = kind
        self.labels = [kind, service, method]
        self.name = f"{service}/{method}"
        self.unlogged = method in probes.RPCS
        """Whether logs and traces omit the RPC."""
        self.ends: dict[str, int] = {}
        self.duration = Histogram(bounds)

    @property
    def path(self) -> str:
        return f"/{self.name}"

    def count_end(self, status: str, seconds: float) -> None:
        self.ends[status] = self.ends.get(status, 0) + 1
        self.duration.observe(seconds)
