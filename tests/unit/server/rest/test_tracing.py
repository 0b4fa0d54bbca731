"""Spans of requests over HTTP: their names, what they say, and what has none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from inferstream import Application
from inferstream.server.rest.app import RestApp
from inferstream.server.rest.tracing import _authority
from inferstream.settings import Settings

from ..asgi import BODY, Echo


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

    def door(self, *parts: Any) -> Span:
        self.spans.append(Span(*parts))
        return self.spans[-1]


class Failing(Echo):
    async def predict(self, payload: Any) -> Any:
        raise RuntimeError("broken")


@asynccontextmanager
async def traced() -> AsyncIterator[tuple[httpx.AsyncClient, list[Span]]]:
    tracing: Any = Tracing()
    async with Application({"Echo": Echo, "failing": Failing}) as application:
        rest = RestApp(application.dataplane, Settings(), application.meters, tracing)
        transport = httpx.ASGITransport(rest.entry)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:5") as client:
            yield client, tracing.spans


async def test_an_inference_has_the_template_of_its_route_and_its_status() -> None:
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
async def test_a_fault_of_the_server_is_an_error_and_one_of_the_client_is_none(
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


async def test_a_route_of_a_model_is_named_and_gets_the_context() -> None:
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
def test_a_host_may_have_a_port(host: str, expected: tuple[str, int | None]) -> None:
    assert _authority(host) == expected
