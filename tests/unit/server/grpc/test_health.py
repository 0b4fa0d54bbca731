"""gRPC's own health service."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from inferstream.errors import NotFound
from inferstream.protos.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListRequest
from inferstream.server.grpc import health
from inferstream.server.grpc.health import Health

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING


def service(*typed: str) -> tuple[Health, Any]:
    dataplane = SimpleNamespace(ready=True)
    return Health(dataplane, SimpleNamespace(names=[*typed])), dataplane  # type: ignore[arg-type]


async def test_health_status_covers_the_whole_server() -> None:
    checked, dataplane = service("my.App")
    for name in ("", "inference.GRPCInferenceService", "my.App"):
        dataplane.ready = True
        assert (await checked.Check(HealthCheckRequest(service=name), None)).status == SERVING  # type: ignore[arg-type]
        dataplane.ready = False
        assert (await checked.Check(HealthCheckRequest(service=name), None)).status == NOT_SERVING  # type: ignore[arg-type]
    with pytest.raises(NotFound, match=r"Service other\.App is not known"):
        await checked.Check(HealthCheckRequest(service="other.App"), None)  # type: ignore[arg-type]


async def test_every_service_is_listed() -> None:
    checked, _ = service("my.App")
    listed = await checked.List(HealthListRequest(), None)  # type: ignore[arg-type]
    assert {*listed.statuses} == {"", "inference.GRPCInferenceService", "my.App"}
    assert {each.status for each in listed.statuses.values()} == {SERVING}


class Exchange:
    """A client that watches one service."""

    def __init__(self, name: str) -> None:
        self.request = HealthCheckRequest(service=name)
        self.statuses: asyncio.Queue[int] = asyncio.Queue()

    async def read(self) -> HealthCheckRequest:
        return self.request

    async def write(self, data: bytes) -> None:
        self.statuses.put_nowait(HealthCheckResponse.FromString(data).status)


async def test_watcher_receives_the_status_and_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CHECK_INTERVAL_SECONDS", 0.001)
    checked, dataplane = service()
    exchange = Exchange("")
    watching = asyncio.create_task(checked.Watch(exchange))  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        assert await exchange.statuses.get() == SERVING
        dataplane.ready = False
        assert await exchange.statuses.get() == NOT_SERVING
        dataplane.ready = True
        assert await exchange.statuses.get() == SERVING
    watching.cancel()
    assert exchange.statuses.empty()


async def test_later_service_is_unknown_until_it_appears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CHECK_INTERVAL_SECONDS", 0.001)
    names: list[str] = []
    checked = Health(SimpleNamespace(ready=True), SimpleNamespace(names=names))  # type: ignore[arg-type]
    exchange = Exchange("my.App")
    watching = asyncio.create_task(checked.Watch(exchange))  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        assert await exchange.statuses.get() == HealthCheckResponse.SERVICE_UNKNOWN
        names.append("my.App")
        assert await exchange.statuses.get() == SERVING
    watching.cancel()
