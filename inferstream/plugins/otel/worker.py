"""Spans in worker processes, as children of the span of the call."""

import logging
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any

from inferstream import Settings
from inferstream.ext.calls import Call, Handler, Reply, WorkerEdge
from inferstream.types import Headers

from .tracer import find_collector

if TYPE_CHECKING:
    from inferstream.plugins.otel.tracing import Tracer

logger = logging.getLogger("inferstream.worker")


class WorkerSpans(WorkerEdge):
    """Exports the spans of model code in a worker."""

    def __init__(self, given: Any) -> None:
        self._tracer: Tracer | None = None
        try:
            # Imported lazily, because the worker also runs without it.
            from inferstream.plugins.otel import tracing
        except Exception as error:  # An older protobuf raises errors other than ImportError.
            logger.error("tracing is not available in this worker: %s: %s", type(error).__name__, error)
        else:
            self._tracer = tracing.Tracer(*given)
            self.current_span = self._tracer.current_span

    @classmethod
    def of(cls, settings: Settings) -> Any:
        return find_collector(settings)

    def call(self, handler: Handler) -> Handler:
        tracer = self._tracer
        if tracer is None:
            return handler

        def handle(call: Call) -> Awaitable[Reply]:
            if call.trace is not None:
                tracer.attach_remote_span(call.trace)
            return handler(call)

        return handle

    def route(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        if self._tracer is not None:
            self._tracer.attach_remote_span(Headers(headers))

    async def stop(self) -> None:
        if self._tracer is not None:
            await self._tracer.stop()
