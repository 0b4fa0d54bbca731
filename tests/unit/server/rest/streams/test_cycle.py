"""A request over a stream, in the messages of ASGI."""

import asyncio
from typing import Any

import pytest

from inferstream.server.http1.service import Service
from inferstream.server.http2 import frames
from inferstream.server.http2.hpack import encode

from .test_accepting import Port

START = {"type": "http.response.start", "status": 200, "headers": []}


def serving(application: Any) -> Port:
    return Port(Service(application))


def data(id: int, body: bytes, end: bool = False) -> bytes:
    return frames.frame(frames.DATA, frames.END_STREAM if end else 0, id, body)


def head(id: int, method: bytes = b"POST", end: bool = True) -> bytes:
    fields = [(b":method", method), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"a")]
    return frames.headers(id, encode(fields), end)


async def test_body_is_received_while_the_application_runs() -> None:
    pieces: list[tuple[bytes, bool]] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while not pieces or pieces[-1][1]:
            message = await receive()
            pieces.append((message["body"], message["more_body"]))
            if message["more_body"]:
                served.connection.data_received(data(1, b"last", end=True))
        await send(START)
        await send({"type": "http.response.body", "body": b"done"})

    served = serving(application)
    served.connection.data_received(head(1, end=False) + data(1, b"first"))
    await served.settled()
    assert pieces == [(b"first", True), (b"last", False)]
    assert served.bodies == {1: b"done"}


async def test_head_is_sent_with_the_first_chunk() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({**START, "headers": [(b"transfer-encoding", b"chunked"), (b"x-a", b"b")]})
        for piece, more in ((b"a", True), (b"b", True), (b"", False)):
            await send({"type": "http.response.body", "body": piece, "more_body": more})

    served = serving(application)
    served.connection.data_received(head(1))
    await served.settled()
    assert (served.bodies, served.ended) == ({1: b"ab"}, {1})
    assert b"transfer-encoding" not in served.heads[1][0]
    assert served.heads[1][0][b"x-a"] == b"b"


@pytest.mark.parametrize(("method", "status"), [(b"HEAD", 200), (b"GET", 204), (b"GET", 304)])
async def test_response_without_body_is_only_a_head(method: bytes, status: int) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({**START, "status": status, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"body" if method == b"HEAD" else b""})

    served = serving(application)
    served.connection.data_received(head(1, method))
    await served.settled()
    assert (served.bodies.get(1, b""), served.ended) == (b"", {1})
    assert served.heads[1][0][b":status"] == b"%d" % status


async def fail(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("secret")


async def fail_later(scope: Any, receive: Any, send: Any) -> None:
    await send(START)
    await send({"type": "http.response.body", "body": b"a", "more_body": True})
    raise RuntimeError("secret")


async def out_of_turn(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.body", "body": b"a"})


async def wrong_header(scope: Any, receive: Any, send: Any) -> None:
    await send({**START, "headers": [(b"x-a", b"b\r\nx-c: d")]})


async def return_nothing(scope: Any, receive: Any, send: Any) -> None: ...


@pytest.mark.parametrize("application", [fail, out_of_turn, wrong_header, return_nothing])
async def test_failing_application_returns_an_error(
    application: Any, caplog: pytest.LogCaptureFixture
) -> None:
    served = serving(application)
    served.connection.data_received(head(1))
    await served.settled()
    assert (served.heads[1][0][b":status"], served.bodies[1]) == (b"500", b"Internal Server Error")
    assert [record.name for record in caplog.records] == ["inferstream.rest"]


async def test_application_failing_mid_response_resets_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    served = serving(fail_later)
    served.connection.data_received(head(1))
    await served.settled()
    assert (served.bodies[1], served.resets) == (b"a", {1: 8})
    assert 1 not in served.ended


async def test_early_response_waits_for_the_request_before_it_ends() -> None:
    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await send({**START, "status": 413})
        await send({"type": "http.response.body", "body": b"no"})
        assert (await receive())["type"] == "http.disconnect"

    served = serving(refuse)
    served.connection.data_received(head(1, end=False) + data(1, b"x" * 1000))
    await served.settled()
    assert 1 not in served.ended
    served.connection.data_received(data(1, b"x" * 1000, end=True))
    await served.settled()
    assert (served.heads[1][0][b":status"], served.bodies[1], served.ended) == (b"413", b"no", {1})


async def test_application_receives_disconnect() -> None:
    messages: list[str] = []
    begun = asyncio.Event()

    async def wait(scope: Any, receive: Any, send: Any) -> None:
        messages.append((await receive())["type"])
        begun.set()
        try:
            messages.append((await receive())["type"])
        except asyncio.CancelledError:
            messages.append((await receive())["type"])
            raise

    served = serving(wait)
    served.connection.data_received(head(1, end=False) + data(1, b"x"))
    async with asyncio.timeout(10):
        await begun.wait()
    served.connection.data_received(frames.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08"))
    await served.settled()
    assert messages == ["http.request", "http.disconnect"]
