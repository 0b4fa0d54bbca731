"""Spans for an OpenTelemetry collector. Imported only if the settings name one."""

import asyncio
from collections.abc import Mapping, Sequence

from opentelemetry import context, propagate, trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, format_span_id, format_trace_id

from inferstream.plugins.otel.resource import build_resource

FLUSH = 1.0
"""Seconds for the last spans to reach their collector."""

SpanValues = Mapping[str, str | int | float | Sequence[str]]


class Span:
    """A span that becomes the current one of its task or thread. `parent` is the enclosing span."""

    def __init__(self, span: trace.Span, parent: trace.Span) -> None:
        self._span = span
        self._parent = parent
        # Never detached: each request has its own task, in which a stream's model continues.
        context.attach(trace.set_span_in_context(span))

    def carrier(self) -> dict[str, str]:
        """The headers of W3C's trace context, with which another process makes children of this span."""
        headers: dict[str, str] = {}
        propagate.inject(headers, trace.set_span_in_context(self._span))
        return headers

    def note(self, values: SpanValues) -> None:
        self._span.set_attributes(values)

    def happened(self, event: str) -> None:
        self._span.add_event(event)

    def end(self, failure: str | None = None) -> None:
        """End it, with an error status if there is a `failure`."""
        if failure is not None:
            self._span.set_status(Status(StatusCode.ERROR, failure))
        self._span.end()

    def blame_parent(self, failure: str) -> None:
        """Mark the parent as failed. It ends later and does not see the failure."""
        self._parent.set_status(Status(StatusCode.ERROR, failure))


class Tracer:
    """Makes spans, also those of model code, and sends them to the collector at `endpoint`."""

    def __init__(self, endpoint: str, name: str, version: str) -> None:
        self.settings = (endpoint, name, version)
        self._provider = TracerProvider(
            resource=build_resource({"service.name": name, "service.version": version})
        )
        exporter = OTLPSpanExporter(endpoint=endpoint, insecure=not endpoint.startswith("https://"))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(self._provider)
        self._tracer = self._provider.get_tracer("inferstream", version)

    def door(self, name: str, headers: Mapping[str, str], values: SpanValues) -> Span:
        """The span of a request, a child of the client's span if these headers name one."""
        parent = propagate.extract(headers)
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, dict(values))
        return Span(span, trace.get_current_span(parent))

    def call(self, name: str, values: SpanValues) -> Span:
        """The span of an inference, a child of the current one."""
        return Span(self._tracer.start_span(name, attributes=dict(values)), trace.get_current_span())

    def enter(self, carrier: Mapping[str, str]) -> None:
        """Make the span of another process the current one of this task."""
        context.attach(propagate.extract(carrier))

    @staticmethod
    def current_span() -> tuple[str, str] | None:
        """The trace id and the span id of this task or thread, as W3C's trace context has them."""
        span = trace.get_current_span().get_span_context()
        if not span.is_valid:
            return None
        return format_trace_id(span.trace_id), format_span_id(span.span_id)

    async def stop(self) -> None:
        """Send the remaining spans, for at most `FLUSH` seconds."""
        flushing = asyncio.create_task(asyncio.to_thread(self._provider.shutdown))
        await asyncio.wait([flushing], timeout=FLUSH)
