"""The HTTP caller, against servers that answer in every way there is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from inferstream.errors import CallFailed
from inferstream.ext.hosting import ClientTarget as Target
from inferstream.plugins.tools.bench.rest import RestCaller

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Scripted:
    """Answers each request with the next of some scripts, each a list of pieces; None closes the connection."""

    def __init__(self, *scripts: list[bytes | None]) -> None:
        self.scripts = list(scripts)
        self.requests: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.scripts:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                for piece in self.scripts.pop(0):
                    if piece is None:
                        return
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
            await reader.read()
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()


@asynccontextmanager
async def caller(scripted: Scripted, stream: bool = False, timeout: float = 5) -> AsyncIterator[RestCaller]:
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    target = Target(f"127.0.0.1:{port}", timeout)
    found = RestCaller(target, "a b", "generate_stream" if stream else "infer", b'{"x":1}', {"X-Key": "k"})
    yield found
    await found.aclose()
    server.close()
    await server.wait_closed()


def nothing(items: int) -> None:
    raise AssertionError("a whole answer has no items")


async def test_connection_is_reused() -> None:
    scripted = Scripted([OK], [OK[:20], OK[20:]], [OK])
    async with caller(scripted) as calling:
        for _ in range(3):
            await calling.call(nothing)
    assert scripted.connections == 1
    assert scripted.requests[0].startswith(b"POST /v2/models/a%20b/infer HTTP/1.1\r\n")
    assert b"X-Key: k\r\n" in scripted.requests[0]
    assert scripted.requests[2].endswith(b'\r\n\r\n{"x":1}')


async def test_events_are_counted_for_every_split() -> None:
    text = b": ping\n\ndata: 1\n\ndata: 22\n\ndata: 3\n\n"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)
    for cut in range(1, len(body)):
        came: list[int] = []
        async with caller(Scripted([STREAM, body[:cut], body[cut:]]), stream=True) as calling:
            await calling.call(came.append)
        assert sum(came) == 3


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy"], "503: busy"),
        ([b"nonsense\r\n\r\n"], "not HTTP"),
        ([OK[:30], None], "connection: ended by the server"),
        ([None], "connection: ended by the server"),
        ([STREAM, b"1b\r\nevent: error\ndata: broken\n\n\r\n0\r\n\r\n"], "error event: broken"),
    ],
)
async def test_failed_call_is_reported_and_next_one_works(script: list, reason: str) -> None:
    async with caller(Scripted(script, [OK]), stream=True) as calling:
        with pytest.raises(CallFailed, match=reason):
            await calling.call(nothing)
        await calling.call(nothing)


async def test_connection_closed_by_server_is_reopened() -> None:
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    scripted = Scripted([closing], [OK])
    async with caller(scripted) as calling:
        await calling.call(nothing)
        await calling.call(nothing)
    assert scripted.connections == 2


async def test_unresponsive_server_is_a_timeout() -> None:
    async with caller(Scripted([b"HTTP/1.1 200 OK\r\n"]), timeout=0.05) as calling:
        with pytest.raises(CallFailed, match="timeout"):
            await calling.call(nothing)


async def test_unreachable_server_is_reported() -> None:
    calling = RestCaller(Target("127.0.0.1:1"), "m", "infer", b"{}", {})
    with pytest.raises(CallFailed, match="connection: "):
        await calling.call(nothing)
