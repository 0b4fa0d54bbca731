"""The services of the HTTP ports, and their limits."""

import asyncio
import socket
from typing import Any

import httpx
import pytest

from inferstream import Application
from inferstream.errors import InvalidSettings
from inferstream.server.rest.app import RestApp
from inferstream.server.rest.messages import COUNT_ON_ARRIVAL
from inferstream.server.rest.server import (
    METRICS_CONNECTIONS,
    HttpServer,
    build_metrics_service,
    build_rest_service,
)
from inferstream.settings import Settings
from tests.asgi import Echo


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/metrics", {}, 200),
        ("GET", "/metrics/load", {}, 200),
        ("POST", "/metrics", {}, 404),
        ("GET", "/v2/models/Echo/infer", {}, 404),
        ("GET", "/metrics", {"origin": "https://elsewhere.example"}, 403),
        ("GET", "/metrics", {"host": "rebound.example"}, 403),
        ("GET", "/v2/health/live", {"host": "10.0.0.7:8082"}, 200),
        ("HEAD", "/v2/health/ready", {"origin": "https://elsewhere.example"}, 200),
        ("POST", "/v2/health/ready", {}, 404),
        ("GET", "/", {}, 404),
        ("GET", "/v2", {}, 404),
    ],
)
async def test_metrics_port_serves_only_metrics_and_health(
    method: str, path: str, headers: dict[str, str], status: int
) -> None:
    async with Application(Echo) as application:
        settings = Settings()
        service = build_metrics_service(application.meters, settings, application._backend.dataplane)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(service.app), base_url="http://127.0.0.1"
        ) as client:
            answered = await client.request(method, path, headers=headers)
        assert answered.status_code == status, answered.text


@pytest.mark.parametrize(
    ("settings", "direct"),
    [
        ({}, COUNT_ON_ARRIVAL),
        ({"max_body_bytes": 10}, 10),
        ({"cors_settings": {"allow_origins": ["*"]}}, -1),
    ],
)
async def test_middleware_sees_every_request(settings: dict[str, Any], direct: int) -> None:
    async with Application(Echo) as application:
        own = Settings(**settings)
        rest = RestApp(application._backend.dataplane, own, application.meters)
        service = build_rest_service(rest, own)
        assert service.direct_bytes == direct
        assert b"/v2/health/live" in service.probes
        assert service.route(b"/v2/models/Echo/infer").model == "Echo"


async def port_of(name: Any, **settings: Any) -> HttpServer:
    async with Application(Echo) as application:
        return HttpServer(
            build_metrics_service(application.meters, application.settings, application._backend.dataplane),
            Settings(**settings),
            name,
        )


@pytest.mark.parametrize(
    ("name", "most", "expected"),
    [("rest", 1000, 1000), ("metrics", 1000, METRICS_CONNECTIONS), ("metrics", 5, 5)],
)
async def test_metrics_port_allows_few_connections(name: str, most: int, expected: int) -> None:
    server = await port_of(name, max_connections=most)
    assert server._shared.limits.max_connections == expected
    assert server.scheme == "http"


async def test_invalid_option_names_its_port() -> None:
    with pytest.raises(InvalidSettings, match="_custom_metrics_server_settings"):
        await port_of("metrics", _custom_metrics_server_settings={"backlog": "x"})


async def test_port_serves_until_it_is_stopped() -> None:
    async with Application(Echo) as application:
        server = HttpServer(
            build_metrics_service(application.meters, application.settings, application._backend.dataplane),
            Settings(),
            "metrics",
        )
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        await server.start(listening)
        async with asyncio.timeout(20), httpx.AsyncClient() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/metrics/load")).status_code == 200
        await server.stop()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)
