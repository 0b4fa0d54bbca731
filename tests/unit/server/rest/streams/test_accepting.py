"""Requests over HTTP/2: an inference is served directly, any other by the application."""

import asyncio
from typing import Any

import pytest

from inferstream.server.http1.exchange import Openings
from inferstream.server.http1.service import Service
from inferstream.server.http2 import frames
from inferstream.server.http2.connection import Http2Connection
from inferstream.server.http2.hpack import Decoder, encode
from inferstream.server.http2.limits import Http2Limits
from inferstream.server.http2.settings import settings_frame
from inferstream.server.rest.streams.accepting import StreamRequests

from ...http2.conversations import FakeTransport, read_frames

LIMITS = Http2Limits(stream_window=100_000)


class Port:
    """A connection whose requests a service serves, and what its client has received."""

    def __init__(self, service: Service) -> None:
        self.transport = FakeTransport()
        self.requests = StreamRequests(service, Openings([(b"server", b"ours")], False), "http")
        self.connection = Http2Connection(
            self.requests.accept, lambda _: None, LIMITS, lambda _: True, lambda _: None
        )
        self.connection.connection_made(self.transport)
        self.connection.data_received(frames.PREFACE + settings_frame({}))
        self._decode = Decoder(max_list_size=65_536).decode
        self.heads: dict[int, list[dict[bytes, bytes]]] = {}
        self.bodies: dict[int, bytes] = {}
        self.resets: dict[int, int] = {}
        self.ended: set[int] = set()
        self._take()

    def send(self, id: int, *fields: tuple[bytes, bytes], method: bytes = b"POST", path: bytes = b"/infer", body: bytes | None = None) -> None:  # fmt: skip
        pseudo = [(b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"a")]
        self.connection.data_received(frames.headers(id, encode([*pseudo, *fields]), body is None))
        if body is not None:
            self.connection.data_received(frames.frame(frames.DATA, frames.END_STREAM, id, body))

    def _take(self) -> None:
        for kind, flags, id, payload in read_frames(self.transport.take()):
            if kind == frames.HEADERS:
                self.heads.setdefault(id, []).append(dict(self._decode(payload)))
            elif kind == frames.DATA:
                self.bodies[id] = self.bodies.get(id, b"") + payload
            elif kind == frames.RST_STREAM:
                self.resets[id] = int.from_bytes(payload, "big")
            if kind in (frames.HEADERS, frames.DATA) and flags & frames.END_STREAM:
                self.ended.add(id)

    async def settled(self) -> "Port":
        """When no request is served any more."""
        async with asyncio.timeout(10):
            while self.requests._tasks:
                await asyncio.wait(self.requests._tasks)
                await asyncio.sleep(0)
        self._take()
        return self


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Says which request it got."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    told = b"%b %b %b" % (scope["method"].encode(), scope["path"].encode(), body)
    await send(
        {"type": "http.response.start", "status": 201, "headers": [(b"X-A", b"b"), (b"connection", b"close")]}
    )
    await send({"type": "http.response.body", "body": told})


async def infer(exchange: Any) -> None:
    exchange.respond(200, [(b"content-type", b"text/plain")], b"inferred " + exchange.body(1000))


def port(serve: Any = infer) -> Port:
    return Port(Service(application, direct_bytes=10, route=lambda target: target, read=len, infer=serve))


async def test_short_post_of_known_length_bypasses_the_application() -> None:
    served = port()
    served.send(1, (b"content-length", b"4"), body=b"body")
    served.send(3, (b"content-length", b"0"))
    await served.settled()
    assert served.bodies == {1: b"inferred body", 3: b"inferred "}
    assert served.heads[1] == [
        {b":status": b"200", b"server": b"ours", b"content-type": b"text/plain", b"content-length": b"13"}
    ]
    assert served.ended == {1, 3}


async def test_other_requests_use_the_application() -> None:
    served = port()
    served.send(1, (b"content-length", b"11"), body=b"longer body")
    served.send(3, body=b"unknown")
    served.send(5, method=b"GET", path=b"/a%20b?c=d")
    await served.settled()
    assert served.bodies == {1: b"POST /infer longer body", 3: b"POST /infer unknown", 5: b"GET /a b "}
    assert served.heads[5] == [{b":status": b"201", b"server": b"ours", b"x-a": b"b"}], "no header of HTTP/1"
    assert served.ended == {1, 3, 5}


async def test_invalid_target_is_refused() -> None:
    served = port()
    served.send(1, method=b"GET", path=b"/\xff\xfe")
    await served.settled()
    assert served.heads[1][0][b":status"] == b"400"


async def test_internal_error_resets_only_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(exchange: Any) -> None:
        raise RuntimeError("broken")

    served = port(fail)
    served.send(1, (b"content-length", b"0"))
    served.send(3, method=b"GET", path=b"/")
    await served.settled()
    assert (served.resets, served.ended) == ({1: 8}, {3})
    assert "REST call failed" in caplog.text


async def test_stream_reset_cancels_the_request() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang(exchange: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    served = port(hang)
    served.send(1, (b"content-length", b"0"))
    async with asyncio.timeout(10):
        await begun.wait()
        served.connection.data_received(frames.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08"))
        await ended.wait()
    assert 1 not in served.heads
