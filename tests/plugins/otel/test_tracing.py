"""Spans: their parents, their ends, and the headers that carry them to other processes."""

import asyncio
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from inferstream.plugins.otel import tracing
from inferstream.plugins.otel.tracing import Tracer

PARENT = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


class NoExporter:
    """Stands for the exporter to a collector."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def export(self, spans: Any) -> None: ...
    def shutdown(self) -> None: ...


@pytest.fixture(name="traced")
def _traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Tracer, InMemorySpanExporter]]:
    """A tracer, and its spans when they have ended."""
    monkeypatch.setattr(tracing, "OTLPSpanExporter", NoExporter)
    monkeypatch.setattr(trace, "set_tracer_provider", lambda provider: None)
    tracer, spans = Tracer("127.0.0.1:1", "server", "1"), InMemorySpanExporter()
    tracer._provider.add_span_processor(SimpleSpanProcessor(spans))
    yield tracer, spans
    tracer._provider.shutdown()


def test_request_span_is_child_of_client_and_parent_of_call(traced: Any) -> None:
    tracer, spans = traced

    def serve() -> None:
        request = tracer.start_request_span("POST /infer", PARENT, {"a": 1})
        call = tracer.start_call_span("infer", {"model": "m"})
        current = tracer.current_span()
        assert current is not None
        assert [*current] == call.carrier()["traceparent"].split("-")[1:3]
        call.add_event("first")
        call.end()
        request.end()

    copy_context().run(serve)
    call, request = spans.get_finished_spans()
    assert f"{request.parent.span_id:x}" == "b7ad6b7169203331"
    assert call.parent.span_id == request.context.span_id
    assert {f"{span.context.trace_id:032x}" for span in (call, request)} == {
        "0af7651916cd43dd8448eb211c80319c"
    }
    assert (request.kind.name, call.kind.name) == ("SERVER", "INTERNAL")
    assert [event.name for event in call.events] == ["first"]
    assert (dict(request.attributes), dict(call.attributes)) == ({"a": 1}, {"model": "m"})


def test_failure_marks_span_and_optionally_parent(traced: Any) -> None:
    tracer, spans = traced

    def serve() -> None:
        request = tracer.start_request_span("request", {}, {})
        call = tracer.start_call_span("call", {})
        call.note({"b": 2})
        call.blame_parent("broken")
        call.end("no memory")
        request.end()

    copy_context().run(serve)
    call, request = spans.get_finished_spans()
    assert (call.name, dict(call.attributes)) == ("call", {"b": 2})
    assert (call.status.status_code, call.status.description) == (StatusCode.ERROR, "no memory")
    assert (request.status.status_code, request.status.description) == (StatusCode.ERROR, "broken")


def test_latencies_are_on_the_span_of_the_request(traced: Any) -> None:
    tracer, spans = traced

    def serve() -> None:
        request = tracer.start_request_span("request", {}, {})
        call = tracer.start_call_span("call", {})
        inner = tracer.start_call_span("inner", {})
        inner.note_latencies({"seconds": 1})
        inner.end()
        call.note_latencies({"seconds": 2})
        request.end()
        call.note_latencies({"late": 3})
        call.end()

    copy_context().run(serve)
    found = {span.name: dict(span.attributes) for span in spans.get_finished_spans()}
    assert found == {"inner": {"seconds": 1}, "request": {"seconds": 2}, "call": {"seconds": 2, "late": 3}}


def test_span_context_crosses_processes(traced: Any) -> None:
    tracer, spans = traced

    def work() -> None:
        assert tracer.current_span() is None
        tracer.attach_remote_span(PARENT)
        assert tracer.current_span() == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
        tracer.start_call_span("call", {}).end()

    copy_context().run(work)
    (call,) = spans.get_finished_spans()
    assert f"{call.parent.span_id:x}" == "b7ad6b7169203331"


@pytest.mark.parametrize(("endpoint", "insecure"), [("127.0.0.1:1", True), ("https://there:1", False)])
def test_https_collector_is_verified(
    traced: Any, monkeypatch: pytest.MonkeyPatch, endpoint: str, insecure: bool
) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(tracing, "OTLPSpanExporter", lambda **options: made.append(options) or NoExporter())
    Tracer(endpoint, "server", "1")._provider.shutdown()
    assert made == [{"endpoint": endpoint, "insecure": insecure}]


async def test_hanging_collector_does_not_block_exit(traced: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tracer, _ = traced
    shut = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def hang(function: Any) -> None:
        loop.call_soon(shut.set)
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "to_thread", hang)
    monkeypatch.setattr(tracing, "FLUSH", 0.01)
    await asyncio.wait_for(tracer.stop(), 10)
    assert shut.is_set()
