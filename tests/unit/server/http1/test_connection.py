"""What an application and a client may do on one connection, at a port of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inferstream.concurrency.event_loop import new_event_loop
from inferstream.server.http1.exchange import Openings
from inferstream.server.http1.guard import PortLimits, Watch
from inferstream.server.http1.port import Http1Port
from inferstream.server.http1.service import Service

HOST = b" HTTP/1.1\r\nHost: localhost\r\n"
LAST = b"GET /echo" + HOST + b"Connection: close\r\n\r\n"
ENDS = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
LIMITS = PortLimits(100, 10, 10, 30, 10)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Echoes the body, except at the paths of `HEADERS`, where it reads none."""
    path, body = scope["path"], b""
    if path not in HEADERS:
        more = True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
    status, headers, *parts = HEADERS.get(path, (200, (b"content-length", b"%d" % len(body)), body))
    await send({"type": "http.response.start", "status": status, "headers": [headers]})
    waiting = asyncio.ensure_future(receive()) if path == "/listening" else None  # as Starlette's streams do
    for part in parts[:-1]:
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": parts[-1]})
    if waiting is not None:
        assert (await waiting)["type"] == "http.disconnect"


HEADERS: dict[str, Any] = {
    "/refused": (401, (b"content-length", b"2"), b"no"),
    "/encoded": (200, (b"Transfer-Encoding", b"chunked"), b"hello"),
    "/listening": (200, (b"x-a", b"b"), b"one", b"two"),
    "/unmodified": (304, (b"content-length", b"20"), b""),
}


@asynccontextmanager
async def port() -> AsyncIterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        served = Http1Port(Service(app), LIMITS, Openings([], False), backlog=100)
        await served.start(sock)
        try:
            yield sock.getsockname()[1]
        finally:
            await served.stop()


def answered(loop: Callable[[], asyncio.AbstractEventLoop], *sent: bytes) -> bytes:
    """All that the server writes until it closes, when each part follows once the one before is read."""

    async def ask() -> bytes:
        async with port() as number, asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", number)
            writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            received = b""
            for part in sent[:-1]:
                writer.write(part)
                await writer.drain()
                for _ in range(20):  # turns of the loop, in which the server takes the part
                    await asyncio.sleep(0)
            writer.write(sent[-1])
            received += await reader.read(-1)
            writer.close()
            return received

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(ask())


@pytest.fixture(params=[asyncio.new_event_loop, new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("first", [70_000, 100_000])
def test_unread_body_does_not_block_the_connection(loop: Any, first: int) -> None:
    head = b"POST /refused" + HOST + b"Content-Length: 100000\r\n\r\n"
    parts = [head + b"x" * first, b"x" * (100_000 - first) + LAST]
    assert answered(loop, *parts) == b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno" + ENDS


def test_response_framing_is_set_by_the_server(loop: Any) -> None:
    response = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    assert answered(loop, b"GET /encoded" + HOST + b"\r\n" + LAST) == response + ENDS
    assert b"chunked" not in answered(loop, b"GET /encoded HTTP/1.0\r\n\r\n")


def test_a_304_response_may_have_content_length(loop: Any) -> None:
    response = b"HTTP/1.1 304 Not Modified\r\ncontent-length: 20\r\n\r\n"
    assert answered(loop, b"GET /unmodified" + HOST + b"\r\n" + LAST) == response + ENDS


@pytest.mark.parametrize("path", [b"/listening", b"/refused"])
def test_no_100_continue_is_sent_after_the_response_starts(loop: Any, path: bytes) -> None:
    sent = b"POST " + path + HOST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    received = answered(loop, sent)
    assert b"100 Continue" not in received
    assert b"connection: close\r\n" in received


def test_http_1_0_client_gets_no_100_continue(loop: Any) -> None:
    sent = b"POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"
    assert answered(loop, sent).startswith(b"HTTP/1.1 200 ")
    sent = (
        b"POST /echo" + HOST + b"Connection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"
    )
    assert answered(loop, sent).startswith(b"HTTP/1.1 100 ")


def test_blank_line_after_body_may_arrive_in_two_parts(loop: Any) -> None:
    sent = b"POST /echo" + HOST + b"Content-Length: 1\r\n\r\nx\r"
    assert answered(loop, sent, b"\n" + LAST).endswith(b"\r\n\r\nx" + ENDS)


class Reader:
    """A connection whose client reads its response slowly."""

    blocked, streaming, closing, receiving, serving, fresh = True, False, False, False, False, False
    received = 0
    aborted = False

    def __init__(self) -> None:
        self.transport = self
        self.unsent = 10**7

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.aborted = True


def test_slow_reader_is_not_dropped_until_it_stops() -> None:
    reader, watch = Reader(), Watch(PortLimits(100, 10, 10, 30, 2))
    for now in range(20):
        reader.unsent -= 1000
        watch.enforce_limits(reader, float(now))  # type: ignore[arg-type]
    assert not reader.aborted
    for now in range(20, 24):
        watch.enforce_limits(reader, float(now))  # type: ignore[arg-type]
    assert reader.aborted


@pytest.mark.parametrize(("fixed", "asked"), [(True, 1), (False, 3)])
def test_target_is_looked_up_again_unless_it_is_static(loop: Any, fixed: bool, asked: int) -> None:
    targets: list[bytes] = []
    read: list[object] = []

    def route(target: bytes) -> str:
        targets.append(target)
        return "infer"

    async def infer(exchange: Any) -> None:
        exchange.respond(200, [], exchange.body(10))

    async def ask() -> bytes:
        service = Service(
            app, direct_bytes=10, route=route, is_fixed=lambda route: fixed, read=read.append, infer=infer
        )
        served = Http1Port(service, LIMITS, Openings([], False), backlog=100)
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            await served.start(sock)
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            received = b""
            for body in b"abc":
                writer.write(b"POST /infer" + HOST + b"Content-Length: 1\r\n\r\n%c" % body)
                received += await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(1)
            writer.close()
            await served.stop()
            return received

    with asyncio.Runner(loop_factory=loop) as runner:
        received = runner.run(ask())
    assert received == b"".join(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%c" % body for body in b"abc")
    assert targets == [b"/infer"] * asked
    assert len(read) == 1  # the headers of a client that repeats them
