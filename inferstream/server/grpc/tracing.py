"""A span around each RPC except those of health."""

from ...telemetry.rpcs import UNLOGGED
from ...telemetry.tracing import Tracer
from .context import RpcContext, headers_of
from .rpc import RpcFailed, ServeRpc
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


def traced(tracing: Tracer, service: str, method: str, serve: ServeRpc) -> ServeRpc:
    """An RPC in a span; one of health as it is."""
    if method in UNLOGGED:
        return serve
    name = f"{service}/{method}"
    values = {"rpc.system.name": "grpc", "rpc.method": name}

    async def in_span(incoming: bytes | None, context: RpcContext) -> bytes | None:
        span = tracing.door(name, headers_of(context), values)
        failure: str | None = None
        code = StatusCode.CANCELLED
        try:
            response = await serve(incoming, context)
            code = StatusCode.OK
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

    return in_span
