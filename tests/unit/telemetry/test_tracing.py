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

from inferstream.telemetry import tracing
from inferstream.telemetry.tracing import Tracer

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


def test_a_request_is_a_child_of_its_client_and_the_call_of_the_request(traced: Any) -> None:
    tracer, spans = traced

    def serve() -> None:
        request = tracer.door("POST /infer", PARENT, {"a": 1})
        call = tracer.call("infer", {"model": "m"})
        current = tracer.current_span()
        assert current is not None
        assert [*current] == call.carrier()["traceparent"].split("-")[1:3]
        call.happened("first")
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


def test_a_failure_is_that_of_the_span_and_where_it_is_told_of_the_parent(traced: Any) -> None:
    tracer, spans = traced

    def serve() -> None:
        request = tracer.door("request", {}, {})
        call = tracer.call("call", {})
        call.note({"b": 2})
        call.blame_parent("broken")
        call.end("no memory")
        request.end()

    copy_context().run(serve)
    call, request = spans.get_finished_spans()
    assert (call.name, dict(call.attributes)) == ("call", {"b": 2})
    assert (call.status.status_code, call.status.description) == (StatusCode.ERROR, "no memory")
    assert (request.status.status_code, request.status.description) == (StatusCode.ERROR, "broken")


def test_a_span_of_another_process_has_children_here(traced: Any) -> None:
    tracer, spans = traced

    def work() -> None:
        assert tracer.current_span() is None
        tracer.enter(PARENT)
        assert tracer.current_span() == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
        tracer.call("call", {}).end()

    copy_context().run(work)
    (call,) = spans.get_finished_spans()
    assert f"{call.parent.span_id:x}" == "b7ad6b7169203331"


@pytest.mark.parametrize(("endpoint", "insecure"), [("127.0.0.1:1", True), ("https://there:1", False)])
def test_a_collector_over_https_is_verified(
    traced: Any, monkeypatch: pytest.MonkeyPatch, endpoint: str, insecure: bool
) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(tracing, "OTLPSpanExporter", lambda **options: made.append(options) or NoExporter())
    Tracer(endpoint, "server", "1")._provider.shutdown()
    assert made == [{"endpoint": endpoint, "insecure": insecure}]


async def test_a_collector_that_hangs_does_not_hold_the_end(
    traced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
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
