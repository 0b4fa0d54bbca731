"""A span around each RPC except those of health."""

from functools import partial

from ...telemetry.rpcs import UNLOGGED
from ...telemetry.tracing import Tracer
from .context import RpcContext, headers_of
from .rpc import Around, RpcFailed, ServeRpc
from .statuses import StatusCode

FAILURES = frozenset(
    (
        StatusCode.UNKNOWN,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.UNIMPLEMENTED,
        StatusCode.INTERNAL,
        StatusCode.UNAVAILABLE,
        StatusCode.DATA_LOSS,
    )
)
"""Statuses that are errors of the server in OpenTelemetry's conventions; the others are the client's."""


class RpcTracing:
    """Wraps RPCs in spans."""

    def __init__(self, tracing: Tracer) -> None:
        self._tracing = tracing

    def around(self, service: str, method: str) -> Around:
        """The wrapper of one RPC; it does nothing for those of health."""
        return (lambda serve: serve) if method in UNLOGGED else partial(self._traced, service, method)

    def _traced(self, service: str, method: str, serve: ServeRpc) -> ServeRpc:
        name = f"{service}/{method}"
        values = {"rpc.system.name": "grpc", "rpc.method": name}

        async def traced(incoming: bytes | None, context: RpcContext) -> bytes | None:
            span = self._tracing.door(name, headers_of(context), values)
            failure: str | None = None
            code = StatusCode.CANCELLED
            try:
                response = await serve(incoming, context)
                code, failure = StatusCode.OK, None
                return response
            except RpcFailed as failed:
                code = failed.code
                failure = f"{code.name}: {failed.message}" if code in FAILURES else None
                raise
            finally:
                span.note({"rpc.response.status_code": code.name})
                if failure is not None:
                    span.note({"error.type": code.name})
                span.end(failure)

        return traced
