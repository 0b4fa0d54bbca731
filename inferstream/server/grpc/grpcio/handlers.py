"""RPCs as handlers for any `grpc.aio` server."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Never, Protocol

import grpc
from grpc.aio import EOF, InternalError  # type: ignore[attr-defined]  # EOF is missing from the stubs

from ....concurrency.scope import PATIENCE, ClientLeft
from ..metadata import CallMetadata, Metadata
from ..rpc import RpcFailed, Rpcs, ServedRpc
from ..statuses import StatusCode

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[bytes, bytes]
    GenericHandler = grpc.GenericRpcHandler[object, object]
else:
    Handler = grpc.RpcMethodHandler  # generic for type checkers alone
    GenericHandler = grpc.GenericRpcHandler

logger = logging.getLogger("inferstream.model")

CODES = {code: grpc.StatusCode[code.name] for code in StatusCode}


class LibraryContext(Protocol):
    """The part of the library's context that is used. Its stubs type neither messages of bytes nor None."""

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]] | None: ...
    def time_remaining(self) -> float | None: ...
    def peer(self) -> str: ...
    def peer_identities(self) -> Sequence[bytes] | None: ...
    async def read(self) -> bytes: ...
    async def write(self, message: bytes, /) -> None: ...
    async def send_initial_metadata(self, metadata: Metadata, /) -> None: ...
    def set_trailing_metadata(self, metadata: Metadata, /) -> None: ...
    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Metadata, /) -> Never: ...


class GrpcioContext:
    """The context of an RPC over the library's. The library raises InternalError once the client has left."""

    __slots__ = ("_context", "_initial", "_trailing", "metadata")

    def __init__(self, context: LibraryContext) -> None:
        self._context = context
        self._initial: Metadata = ()
        self._trailing: Metadata = ()
        self.metadata = CallMetadata(context.invocation_metadata() or ())

    @property
    def deadline(self) -> float | None:
        remaining = self._context.time_remaining()
        return None if remaining is None else asyncio.get_running_loop().time() + remaining

    @property
    def peer(self) -> str:
        return self._context.peer()

    @property
    def identities(self) -> tuple[str, ...]:
        return tuple(name.decode() for name in self._context.peer_identities() or ())

    async def read(self) -> bytes | None:
        try:
            message = await self._context.read()
        except InternalError as error:
            raise ClientLeft from error
        return None if message is EOF else message

    async def write(self, message: bytes, /) -> None:
        await self.open()
        try:
            await self._context.write(message)
        except InternalError as error:
            raise ClientLeft from error

    def add_initial_metadata(self, metadata: Metadata, /) -> None:
        self._initial += metadata

    async def send_initial_metadata(self, metadata: Metadata, /) -> None:
        added, self._initial = self._initial, ()
        try:
            await self._context.send_initial_metadata(added + metadata)
        except InternalError as error:
            raise ClientLeft from error

    async def open(self) -> None:
        """Send the initial metadata that were added and have not left."""
        if self._initial:
            await self.send_initial_metadata(())

    def add_trailing_metadata(self, metadata: Metadata, /) -> None:
        self._trailing += metadata
        self._context.set_trailing_metadata(self._trailing)


class RpcHandlers(GenericHandler):
    """Finds the handler of each call."""

    def __init__(self, rpcs: Rpcs) -> None:
        self._rpcs = rpcs
        self._handlers: dict[str, tuple[ServedRpc, Handler]] = {}

    def service(  # type: ignore[override]  # handlers of bytes
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """The handler of an RPC; None for one that is not implemented."""
        rpc = self._rpcs.find(handler_call_details.method)
        if rpc is None:
            return None
        known = self._handlers.get(rpc.path)
        if known is None or known[0] is not rpc:  # a typed RPC changes with its model
            known = self._handlers[rpc.path] = rpc, _handler_of(rpc)
        return known[1]


def _handler_of(rpc: ServedRpc) -> Handler:
    serve, streams = rpc.serve, rpc.client_streams or rpc.server_streams

    async def served(message: bytes, context: LibraryContext) -> bytes | None:
        own = GrpcioContext(context)
        try:
            with Reminder():
                response = await serve(None if streams else message, own)
            await own.open()
            return response
        except RpcFailed as failed:
            with suppress(ClientLeft):
                await own.open()
            return await context.abort(CODES[failed.code], failed.message, failed.trailing)
        except ClientLeft:
            raise asyncio.CancelledError from None  # the library sends nothing after it

    made = grpc.stream_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
    return made(served)


class Reminder:
    """`with Reminder():` cancels the current task again if model code lingers after a library's only cancel."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelled_before = False
        self._timer = self._schedule()

    def _schedule(self) -> asyncio.TimerHandle:
        return self._task.get_loop().call_later(PATIENCE, self._look)

    def _look(self) -> None:
        if self._cancelled_before:
            logger.error("model code lingers %g s after it was cancelled; cancelling it again", PATIENCE)
            self._task.cancel()
        self._cancelled_before = self._task.cancelling() > 0
        self._timer = self._schedule()

    def __enter__(self) -> None:
        """The timer was started by `__init__`."""

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
