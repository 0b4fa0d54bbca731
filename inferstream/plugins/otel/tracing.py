"""Spans for an OpenTelemetry collector. Imported only if the settings name a collector."""

import asyncio
from collections.abc import Mapping, Sequence

from opentelemetry import context, propagate, trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, format_span_id, format_trace_id

from .resource import build_resource

FLUSH = 1.0
"""Seconds for the last export."""

SpanValues = Mapping[str, str | int | float | Sequence[str]]


class Span:
    """A span that becomes the current span of its task or thread. `parent` is the enclosing span."""

    def __init__(self, span: trace.Span, parent: trace.Span) -> None:
        self._span = span
        self._parent = parent
        # Never detached: each request has a separate task, in which the model's stream continues.
        context.attach(trace.set_span_in_context(span))

    def carrier(self) -> dict[str, str]:
        """Return the W3C Trace Context headers with which another process can create child spans."""
        headers: dict[str, str] = {}
        propagate.inject(headers, trace.set_span_in_context(self._span))
        return headers

    def note(self, values: SpanValues) -> None:
        self._span.set_attributes(values)

    def note_latencies(self, values: SpanValues) -> None:
        """Set attributes of a call. Its parent also gets them if it is the span of the request."""
        self._span.set_attributes(values)
        parent = self._parent
        if isinstance(parent, ReadableSpan) and parent.kind is SpanKind.SERVER and parent.is_recording():
            parent.set_attributes(values)

    def add_event(self, event: str) -> None:
        self._span.add_event(event)

    def end(self, failure: str | None = None) -> None:
        """End the span, with an error status if `failure` is set."""
        if failure is not None:
            self._span.set_status(Status(StatusCode.ERROR, failure))
        self._span.end()

    def blame_parent(self, failure: str) -> None:
        """Mark the parent as failed, because it ends later and does not detect the failure."""
        self._parent.set_status(Status(StatusCode.ERROR, failure))


class Tracer:
    """Creates spans, including spans of model code, and exports them to the collector at `endpoint`."""

    def __init__(self, endpoint: str, name: str, version: str) -> None:
        self.settings = (endpoint, name, version)
        self._provider = TracerProvider(
            resource=build_resource({"service.name": name, "service.version": version})
        )
        exporter = OTLPSpanExporter(endpoint=endpoint, insecure=not endpoint.startswith("https://"))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(self._provider)
        self._tracer = self._provider.get_tracer("inferstream", version)

    def start_request_span(self, name: str, headers: Mapping[str, str], values: SpanValues) -> Span:
        """Start the span of a request. Its parent is the client's span if the headers contain one."""
        parent = propagate.extract(headers)
        span = self._tracer.start_span(name, parent, SpanKind.SERVER, dict(values))
        return Span(span, trace.get_current_span(parent))

    def start_call_span(self, name: str, values: SpanValues) -> Span:
        """Start the span of an inference as a child of the current span."""
        return Span(self._tracer.start_span(name, attributes=dict(values)), trace.get_current_span())

    def attach_remote_span(self, carrier: Mapping[str, str]) -> None:
        """Make the span of another process the current one of this task."""
        context.attach(propagate.extract(carrier))

    @staticmethod
    def current_span() -> tuple[str, str] | None:
        """Return the current trace id and span id in the W3C Trace Context format."""
        span = trace.get_current_span().get_span_context()
        if not span.is_valid:
            return None
        return format_trace_id(span.trace_id), format_span_id(span.span_id)

    async def stop(self) -> None:
        """Export the remaining spans, for at most `FLUSH` seconds."""
        flushing = asyncio.create_task(asyncio.to_thread(self._provider.shutdown))
        await asyncio.wait([flushing], timeout=FLUSH)
