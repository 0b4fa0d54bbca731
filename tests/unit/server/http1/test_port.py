"""A port that speaks HTTP/1: what it serves, looks at, and ends."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inferstream.server.http1 import port as module
from inferstream.server.http1.exchange import Openings
from inferstream.server.http1.guard import PortLimits
from inferstream.server.http1.port import Http1Port
from inferstream.server.http1.service import Service

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


class Application:
    """Answers when it is let to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        self.cancelled = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"done"})


class Port:
    def __init__(self) -> None:
        self.app = Application()
        self.port = Http1Port(
            Service(self.app),
            PortLimits(10, 10.0, 10.0, 10.0, 10.0),
            Openings([(b"server", b"s")], False),
            backlog=5,
        )
        self.number = 0

    async def start(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        self.number = listening.getsockname()[1]
        await self.port.start(listening)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.number)


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Port]:
    made = Port()
    await made.start()
    yield made
    await made.port.stop()


async def test_stop_finishes_responses_and_accepts_no_connections(served: Port) -> None:
    async with asyncio.timeout(20):
        reader, writer = await served.connect()
        idle, idle_writer = await served.connect()
        writer.write(GET)
        await served.app.begun.wait()
        stopping = asyncio.create_task(served.port.stop())
        assert await idle.read() == b"", "a connection without a request is closed"
        with pytest.raises(OSError):
            await served.connect()
        served.app.go.set()
        answer = await reader.read()
        await stopping
        for each in (writer, idle_writer):
            each.close()
            await each.wait_closed()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\ndone")
    assert not served.app.cancelled


async def test_pending_response_is_abandoned_after_the_timeout(
    served: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAST_WORDS", 0.01)
    async with asyncio.timeout(20):
        reader, writer = await served.connect()
        writer.write(GET)
        await served.app.begun.wait()
        await served.port.stop()
        with pytest.raises(ConnectionError):
            if await reader.read() == b"":
                raise ConnectionResetError
        writer.transport.abort()
    assert served.app.cancelled


async def test_unstarted_port_can_be_stopped() -> None:
    port = Port()
    await port.port.stop()
    assert port.port.scheme == "http"
