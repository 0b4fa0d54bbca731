"""Spans in worker processes: a call continues the span with which it came."""

import logging
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any

from inferstream import Settings
from inferstream.ext.calls import Call, Handler, Reply, WorkerEdge
from inferstream.types import Headers

from .tracer import collector_of

if TYPE_CHECKING:
    from inferstream.telemetry.tracing import Tracer

logger = logging.getLogger("inferstream.worker")


class WorkerSpans(WorkerEdge):
    """Sends the spans of model code in a worker to the collector."""

    def __init__(self, given: Any) -> None:
        self._tracer: Tracer | None = None
        try:
            from inferstream.telemetry import tracing  # late: a worker starts without it
        except Exception as error:  # an older protobuf raises other errors than ImportError
            logger.error("no traces from this worker's environment: %s: %s", type(error).__name__, error)
        else:
            self._tracer = tracing.Tracer(*given)
            self.current_span = self._tracer.current_span

    @classmethod
    def of(cls, settings: Settings) -> Any:
        return collector_of(settings)

    def call(self, handler: Handler) -> Handler:
        tracer = self._tracer
        if tracer is None:
            return handler

        def handle(call: Call) -> Awaitable[Reply]:
            if call.trace is not None:
                tracer.enter(call.trace)
            return handler(call)

        return handle

    def route(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self._tracer is not None:
            self._tracer.enter(Headers(headers))

    async def stop(self) -> None:
        if self._tracer is not None:
            await self._tracer.stop()
