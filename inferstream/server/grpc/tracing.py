"""A span around each RPC except those of health."""

from functools import partial

import grpc

from ...telemetry.rpcs import UNLOGGED
from ...telemetry.tracing import Tracer
from .context import RpcContext, headers_of
from .rpc import Around, ServeRpc


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

        async def traced(incoming: bytes, context: RpcContext) -> bytes | None:
            span = self._tracing.door(name, headers_of(context), values)
            failure: str | None = "CANCELLED"
            code = grpc.StatusCode.CANCELLED
            try:
                response = await serve(incoming, context)
                code, failure = grpc.StatusCode.OK, None
                return response
            except grpc.aio.AbortError:
                code = context.code()
                failure = f"{code.name}: {context.details()}"
                raise
            finally:
                span.note({"rpc.grpc.status_code": code.value[0]})
                span.end(failure)

        return traced
