"""A span around each RPC except those of health."""

from functools import partial

from ...telemetry.rpcs import UNLOGGED
from ...telemetry.tracing import Tracer
from .context import RpcContext, headers_of
from .rpc import Around, RpcFailed, ServeRpc
from .statuses import StatusCode


class RpcTracing:
    """Wraps RPCs in spans."""

    def __init__(self, tracing: Tracer) -> None:
        self._tracing = tracing

    def around(self, service: str, method: str) -> Around:
        """The wrapper of one RPC; it does nothing for those of health."""
        return (lambda serve: serve) if method in UNLOGGED else partial(self._traced, service, method)

    def _traced(self, service: str, method: str, serve: ServeRpc) -> ServeRpc:
        name = f"/{service}/{method}"
        values = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}

        async def traced(incoming: bytes | None, context: RpcContext) -> bytes | None:
            span = self._tracing.door(name, headers_of(context), values)
            failure: str | None = "CANCELLED"
            code = StatusCode.CANCELLED
            try:
                response = await serve(incoming, context)
                code, failure = StatusCode.OK, None
                return response
            except RpcFailed as failed:
                code = failed.code
                failure = f"{code.name}: {failed.message}"
                raise
            finally:
                span.note({"rpc.grpc.status_code": code.value})
                span.end(failure)

        return traced
