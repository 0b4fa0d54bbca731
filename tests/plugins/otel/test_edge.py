"""Spans of requests and RPCs: their names, what they say, and what has none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from inferstream import Application
from inferstream.ext.rpc import RpcFailed, StatusCode
from inferstream.plugins.otel.edge import SpanEdge, _authority
from tests.asgi import BODY, Echo

CONTEXT = SimpleNamespace(metadata=SimpleNamespace(pairs=()))
"""An RPC without metadata."""


class Span:
    def __init__(self, name: str, headers: Any, values: dict[str, Any]) -> None:
        self.name = name
        self.headers = headers
        self.values = dict(values)
        self.ended: list[str | None] = []

    def note(self, values: dict[str, Any]) -> None:
        self.values |= values

    def carrier(self) -> dict[str, str]:
        return {"traceparent": "ours"}

    def end(self, failure: str | None = None) -> None:
        self.ended.append(failure)


class Tracing:
    """Keeps the span of each request."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start_request_span(self, *parts: Any) -> Span:
        self.spans.append(Span(*parts))
        return self.spans[-1]

    def current_span(self) -> None: ...

    async def stop(self) -> None: ...


class Failing(Echo):
    async def predict(self, payload: Any) -> Any:
        raise RuntimeError("broken")


@asynccontextmanager
async def traced() -> AsyncIterator[tuple[httpx.AsyncClient, list[Span]]]:
    tracing = Tracing()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inferstream.plugins.otel.spans.build_tracer", lambda parts: tracing)
        application = Application({"Echo": Echo, "failing": Failing})
    async with application:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:5") as client:
            yield client, tracing.spans


async def test_inference_span_has_route_template_and_status() -> None:
    async with traced() as (client, spans):
        await client.post("/v2/models/Echo/infer", content=BODY, headers={"user-agent": "me/1"})
    (span,) = spans
    assert span.name == "POST /v2/models/{model_name}/infer"
    assert span.values == {
        "http.request.method": "POST",
        "http.route": "/v2/models/{model_name}/infer",
        "url.path": "/v2/models/Echo/infer",
        "url.scheme": "http",
        "server.address": "127.0.0.1",
        "server.port": 5,
        "user_agent.original": "me/1",
        "http.response.status_code": 200,
    }
    assert span.ended == [None]


@pytest.mark.parametrize(
    ("path", "status", "failure"),
    [
        ("/v2/models/failing/infer", 500, "status 500"),
        ("/v2/models/nobody/infer", 404, None),
    ],
)
async def test_only_server_errors_mark_http_span_as_error(
    path: str, status: int, failure: str | None
) -> None:
    async with traced() as (client, spans):
        await client.post(path, content=BODY)
    (span,) = spans
    assert (span.values["http.response.status_code"], span.ended) == (status, [failure])
    assert ("error.type" in span.values) is (failure is not None)


async def test_health_and_metrics_have_no_span() -> None:
    async with traced() as (client, spans):
        for path in ("/v2/health/live", "/metrics"):
            await client.get(path)
    assert spans == []


async def test_model_route_is_named_and_receives_context() -> None:
    async with traced() as (client, spans):
        await client.get("/v2", headers={"traceparent": "theirs", "x-a": "b"})
        await client.get("/v2/models/Echo")
    assert [span.name for span in spans] == ["GET /v2", "GET /v2/models/{name}"]
    assert spans[1].values["url.path"] == "/v2/models/Echo"
    assert spans[0].headers["traceparent"] == "theirs"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("a.example:80", ("a.example", 80)),
        ("a.example", ("a.example", None)),
        ("[::1]:80", ("[::1]", 80)),
        ("[::1]", ("[::1]", None)),
        ("a:123456", ("a:123456", None)),
    ],
)
def test_host_can_include_port(host: str, expected: tuple[str, int | None]) -> None:
    assert _authority(host) == expected


def traced_rpc(serve: Any, method: str = "ModelInfer") -> tuple[Any, list[Span]]:
    tracing: Any = Tracing()
    return SpanEdge(tracing).rpc(f"/s.Service/{method}", serve, infers=True), tracing.spans


async def answer(incoming: bytes | None, context: Any) -> bytes | None:
    return incoming


async def test_rpc_has_span_and_probe_has_none() -> None:
    serve, spans = traced_rpc(answer)
    assert await serve(b"a", CONTEXT) == b"a"
    (span,) = spans
    assert (span.name, span.ended) == ("s.Service/ModelInfer", [None])
    assert span.values == {
        "rpc.system.name": "grpc",
        "rpc.method": "s.Service/ModelInfer",
        "rpc.response.status_code": "OK",
    }
    assert traced_rpc(answer, "Check")[0] is answer


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        (StatusCode.INTERNAL, "INTERNAL: why"),
        (StatusCode.UNAVAILABLE, "UNAVAILABLE: why"),
        (StatusCode.NOT_FOUND, None),
        (StatusCode.INVALID_ARGUMENT, None),
    ],
)
async def test_server_error_marks_rpc_span_as_error(code: StatusCode, failure: str | None) -> None:
    async def fail(incoming: bytes | None, context: Any) -> bytes:
        raise RpcFailed(code, "why")

    serve, spans = traced_rpc(fail)
    with pytest.raises(RpcFailed):
        await serve(b"", CONTEXT)
    (span,) = spans
    assert (span.values["rpc.response.status_code"], span.ended) == (code.name, [failure])
    assert span.values.get("error.type") == (None if failure is None else code.name)


async def test_cancelled_rpc_is_not_an_error() -> None:
    async def wait(incoming: bytes | None, context: Any) -> bytes:
        raise asyncio.CancelledError

    serve, spans = traced_rpc(wait)
    with pytest.raises(asyncio.CancelledError):
        await serve(b"", CONTEXT)
    assert (spans[0].values["rpc.response.status_code"], spans[0].ended) == ("CANCELLED", [None])
