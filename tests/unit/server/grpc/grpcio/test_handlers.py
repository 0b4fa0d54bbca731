"""RPCs as handlers of grpcio: the library's context, its end of a stream and its errors."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc.aio import EOF, InternalError

from inferstream.concurrency.scope import ClientLeft
from inferstream.server.grpc.grpcio.handlers import RpcHandlers
from inferstream.server.grpc.rpc import Rpc, RpcFailed
from inferstream.server.grpc.statuses import StatusCode


class Details:
    """What the library tells of a call before it is served."""

    def __init__(self, method: str) -> None:
        self.method = method


class Aborted(Exception):
    """The end of a call that a handler aborts."""


class LibraryContext:
    """A call of a client that has sent one message and half-closed, or has left."""

    def __init__(self, left: bool = False) -> None:
        self._left = left
        self._messages = iter((b"one", EOF))
        self.written: list[bytes] = []

    def invocation_metadata(self) -> None:
        return None

    def time_remaining(self) -> float:
        return 5.0

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def read(self) -> Any:
        if self._left:
            raise InternalError
        return next(self._messages)

    async def write(self, message: bytes) -> None:
        if self._left:
            raise InternalError
        self.written.append(message)

    async def send_initial_metadata(self, metadata: Any) -> None:
        if self._left:
            raise InternalError

    async def abort(self, *status: Any) -> None:
        raise Aborted(*status)


class Table:
    """RPCs by path."""

    def __init__(self, *rpcs: Rpc) -> None:
        self.rpcs = {rpc.path: rpc for rpc in rpcs}

    def find(self, path: str) -> Rpc | None:
        return self.rpcs.get(path)


async def echo(message: Any, context: Any) -> Any:
    loop = asyncio.get_running_loop()
    assert context.deadline == pytest.approx(loop.time() + 5, abs=1)
    assert context.peer == "ipv4:127.0.0.1:1"
    assert context.metadata.pairs == ()
    if message is not None:
        return message
    while (message := await context.read()) is not None:
        await context.write(message)
    return None


async def test_unary_and_streaming_rpcs_have_handlers() -> None:
    handlers = RpcHandlers(Table(Rpc("/s/Unary", False, False, echo), Rpc("/s/Server", False, True, echo)))
    assert await handlers.service(Details("/s/Unary")).unary_unary(b"x", LibraryContext()) == b"x"
    context = LibraryContext()
    assert await handlers.service(Details("/s/Server")).stream_stream(object(), context) is None
    assert context.written == [b"one"]
    assert handlers.service(Details("/s/Other")) is None


async def test_handler_is_reused_until_its_rpc_changes() -> None:
    table = Table(Rpc("/s/M", False, False, echo))
    handlers = RpcHandlers(table)
    first = handlers.service(Details("/s/M"))
    assert handlers.service(Details("/s/M")) is first
    table.rpcs["/s/M"] = Rpc("/s/M", False, False, echo)
    assert handlers.service(Details("/s/M")) is not first


async def test_failure_aborts_with_its_status() -> None:
    async def fail(message: Any, context: Any) -> Any:
        raise RpcFailed(StatusCode.NOT_FOUND, "no m", (("retry-after", "1"),))

    handler = RpcHandlers(Table(Rpc("/s/M", False, False, fail))).service(Details("/s/M"))
    with pytest.raises(Aborted) as caught:
        await handler.unary_unary(b"", LibraryContext())
    assert caught.value.args == (grpc.StatusCode.NOT_FOUND, "no m", (("retry-after", "1"),))


@pytest.mark.parametrize(
    ("used", "arguments"), [("read", ()), ("write", (b"x",)), ("send_initial_metadata", ((("a", "b"),),))]
)
async def test_grpcio_internal_error_means_the_client_disconnected(
    used: str, arguments: tuple[Any, ...]
) -> None:
    seen = []

    async def use(message: Any, context: Any) -> Any:
        try:
            await getattr(context, used)(*arguments)
        except ClientLeft as left:
            seen.append(left)
            raise

    handler = RpcHandlers(Table(Rpc("/s/M", True, True, use))).service(Details("/s/M"))
    with pytest.raises(asyncio.CancelledError):
        await handler.stream_stream(object(), LibraryContext(left=True))
    assert len(seen) == 1
