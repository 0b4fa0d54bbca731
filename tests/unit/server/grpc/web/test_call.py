"""gRPC-Web under any ASGI server: disconnects, deadlines, clients that do not read, and who cancels whom."""

import asyncio
import base64
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.concurrency.scope import ClientLeft
from inferstream.server.grpc.context import RpcContext
from inferstream.server.grpc.rpc import Rpc, RpcFailed
from inferstream.server.grpc.statuses import StatusCode
from inferstream.server.grpc.web.call import WebLimits
from inferstream.server.grpc.web.door import GrpcWeb
from tests.grpc_web import BINARY, TEXT, Frames, body_of, framed, trailers_of

Serve = Callable[[bytes | None, RpcContext], Awaitable[bytes | None]]
PATH = "/some.Service/Method"


class One:
    """A service with one RPC."""

    def __init__(self, serve: Serve, streams: bool) -> None:
        self._rpc = Rpc(PATH, False, streams, serve)

    def find(self, path: str) -> Rpc | None:
        return self._rpc if path == PATH else None


class Client:
    """The server's side of one request, as ASGI shows it."""

    def __init__(self, *messages: bytes, media: str = BINARY, **headers: str) -> None:
        self.head: dict = {}
        self.frames: list[tuple[int, bytes]] = []
        self.bodies = 0
        self.incoming: asyncio.Queue = asyncio.Queue()
        self.reads = asyncio.Event()
        self.reads.set()
        self._reader = Frames(media)
        named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "headers": [(b"content-type", media.encode()), *named.items()],
            "client": ("::1", 7),
        }
        if messages:
            self.body(body_of(*messages, media=media))

    def body(self, piece: bytes, more: bool = False) -> None:
        self.incoming.put_nowait({"type": "http.request", "body": piece, "more_body": more})

    def leave(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})

    async def send(self, message: dict) -> None:
        if message["type"] == "http.response.start":
            self.head = {"status": message["status"], **dict(message["headers"])}
            return
        await self.reads.wait()
        self.bodies += 1
        self.frames += self._reader.feed(message["body"])

    @property
    def messages(self) -> list[bytes]:
        return [data for flag, data in self.frames if not flag]

    @property
    def trailers(self) -> dict[str, str]:
        flag, data = self.frames[-1]
        assert flag == 0x80
        return trailers_of(data)

    async def call(
        self, serve: Serve, streams: bool = True, receive: int = 1000, stall: float = 60
    ) -> "Client":
        door = GrpcWeb(One(serve, streams), WebLimits(receive, None, stall), "default", lambda _: None)
        async with asyncio.timeout(20):  # a call that hangs fails
            await door(self.scope, self.incoming.get, self.send)
        return self


async def echo(message: bytes | None, context: RpcContext) -> bytes | None:
    return bytes(message or b"")


async def repeat(_: bytes | None, context: RpcContext) -> None:
    while (message := await context.read()) is not None:
        await context.write(bytes(message))


async def forever(_: bytes | None, context: RpcContext) -> None:
    await context.write(b"first")
    await asyncio.Event().wait()


async def test_unary_response_is_one_write() -> None:
    client = await Client(b"hello").call(echo, streams=False)
    assert (client.messages, client.trailers, client.bodies) == ([b"hello"], {"grpc-status": "0"}, 1)
    assert int(client.head[b"content-length"]) == 5 + 5 + 5 + len(b"grpc-status:0\r\n")


async def test_context_exposes_the_request() -> None:
    seen = []

    async def serve(_: bytes | None, context: RpcContext) -> None:
        seen.append((context.peer, context.metadata.pairs, context.deadline))
        context.add_trailing_metadata((("b", "2"),))
        await context.send_initial_metadata((("a", "1"),))
        raise RpcFailed(StatusCode.ABORTED, "50% ü", (("retry-after", "3"),))

    client = await Client(b"", x_own="yes", x_data_bin="/w").call(serve)
    assert seen == [("ipv6:[::1]:7", (("x-own", "yes"), ("x-data-bin", b"\xff")), None)]
    assert client.head[b"a"] == b"1"
    expected = {"grpc-status": "10", "grpc-message": "50%25 %C3%BC", "b": "2", "retry-after": "3"}
    assert (client.messages, client.trailers) == ([], expected)


@pytest.mark.parametrize("media", [BINARY, TEXT])
async def test_bidirectional_messages(media: str) -> None:
    messages = [bytes([number]) * number for number in range(40)]
    client = await Client(*messages, media=media).call(repeat, receive=10_000)
    assert (client.messages, client.trailers) == (messages, {"grpc-status": "0"})


async def test_nonwaiting_stream_lets_others_run() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(other())

    async def serve(_: bytes | None, context: RpcContext) -> None:
        until = asyncio.get_running_loop().time() + 10
        while turns < 3 and asyncio.get_running_loop().time() < until:
            await context.write(b"x")

    client = await Client(b"").call(serve)
    beside.cancel()
    assert client.trailers == {"grpc-status": "0"}
    assert turns >= 3


async def test_disconnect_cancels_only_the_call() -> None:
    client = Client(b"hello")
    ended = asyncio.Event()

    async def serve(message: bytes | None, context: RpcContext) -> None:
        try:
            await forever(message, context)
        finally:
            ended.set()

    async def host() -> str:
        await client.call(serve)
        await asyncio.sleep(0)  # a cancel that was not taken back would raise here
        return "went on"

    task = asyncio.create_task(host())
    while not client.messages:
        await asyncio.sleep(0)
    client.leave()
    assert await task == "went on"
    assert ended.is_set()
    assert client.messages == [b"first"]
    assert task.cancelling() == 0


async def test_disconnect_before_end_of_body() -> None:
    client = Client()
    client.body(b"\0\0\0", more=True)
    client.leave()
    await client.call(echo, streams=False)
    assert (client.head, client.frames) == ({}, [])


async def test_external_cancellation_propagates() -> None:
    client = Client(b"")
    task = asyncio.create_task(client.call(forever))
    while not client.messages:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_write_after_disconnect_raises() -> None:
    client = Client(b"")
    raised: list[Exception] = []

    async def serve(_: bytes | None, context: RpcContext) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for send in (context.write(b"x"), context.send_initial_metadata(())):
                try:
                    await send
                except ClientLeft as left:
                    raised.append(left)
            raise

    task = asyncio.create_task(client.call(serve))
    await asyncio.sleep(0)
    client.leave()
    await task
    assert len(raised) == 2
    assert client.frames == []


@pytest.mark.parametrize("more", [False, True])
async def test_deadline_ends_the_call(more: bool) -> None:
    client = Client(grpc_timeout="30m")
    client.body(body_of(b""), more=more)  # with more to come the deadline passes before the RPC starts
    await client.call(forever)
    assert client.messages == ([] if more else [b"first"])
    assert client.trailers["grpc-status"] == "4"
    assert (b"connection" in client.head) == more


async def test_unresponsive_reader_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(b"")
    client.reads.clear()
    await client.call(forever, stall=0.05)
    assert client.frames == []
    assert "client has not read for 0.05 s" in caplog.text


async def test_oversized_body_is_not_read_further() -> None:
    client = Client()
    client.body(bytes(600), more=True)
    client.body(bytes(600), more=True)
    await client.call(repeat)
    assert client.trailers["grpc-status"] == "8"
    assert client.head[b"connection"] == b"close"


@given(
    body=st.binary(max_size=60)
    | st.lists(st.binary(max_size=20), max_size=4).map(lambda each: framed(*each)),
    encode=st.booleans(),
    media=st.sampled_from([BINARY, TEXT]),
    cut=st.integers(0, 60),
    encoding=st.sampled_from(["identity", "gzip", "deflate", "br"]),
    streams=st.booleans(),
)
def test_every_body_ends_in_trailers(
    body: bytes, encode: bool, media: str, cut: int, encoding: str, streams: bool
) -> None:
    if encode:
        body = base64.b64encode(body)

    async def ended() -> Client:
        client = Client(media=media, grpc_encoding=encoding)
        client.body(body[:cut], more=True)
        client.body(body[cut:])
        return await client.call(repeat if streams else echo, streams=streams, receive=50)

    client = asyncio.run(ended())
    assert client.head["status"] == 200
    assert client.trailers["grpc-status"] in ("0", "3", "8", "12")
