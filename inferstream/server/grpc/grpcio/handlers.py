"""The RPCs as handlers for any `grpc.aio` server."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Never, Protocol

import grpc
from grpc.aio import EOF, InternalError  # type: ignore[attr-defined]  # EOF is missing from the stubs

from ....concurrency.scope import PATIENCE, ClientLeft
from ..metadata import CallMetadata, Metadata
from ..rpc import Rpc, RpcFailed, Rpcs
from ..statuses import StatusCode

if TYPE_CHECKING:
    Handler = grpc.RpcMethodHandler[bytes, bytes]
    GenericHandler = grpc.GenericRpcHandler[object, object]
else:
    Handler = grpc.RpcMethodHandler  # generic only for type checkers
    GenericHandler = grpc.GenericRpcHandler

logger = logging.getLogger("inferstream.model")

CODES = {code: grpc.StatusCode[code.name] for code in StatusCode}


class LibraryContext(Protocol):
    """The grpcio context. The stubs of the library support neither bytes messages nor None."""

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
    """An `RpcContext` that wraps the grpcio context, which raises InternalError after a disconnect."""

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
        """Send the initial metadata that has been added and not sent yet."""
        if self._initial:
            await self.send_initial_metadata(())

    def add_trailing_metadata(self, metadata: Metadata, /) -> None:
        self._trailing += metadata
        self._context.set_trailing_metadata(self._trailing)


class RpcHandlers(GenericHandler):
    """Looks up the handler for each call."""

    def __init__(self, rpcs: Rpcs) -> None:
        self._rpcs = rpcs
        self._handlers: dict[str, tuple[Rpc, Handler]] = {}

    def service(  # type: ignore[override]  # handlers of bytes
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Return the handler of an RPC, or None if it is not implemented."""
        rpc = self._rpcs.find(handler_call_details.method)
        if rpc is None:
            return None
        known = self._handlers.get(rpc.path)
        if known is None or known[0] is not rpc:  # typed RPCs change when their model is reloaded
            known = self._handlers[rpc.path] = rpc, _build_handler(rpc)
        return known[1]


def _build_handler(rpc: Rpc) -> Handler:
    serve, streams = rpc.serve, rpc.client_streams or rpc.server_streams

    async def serve_call(message: bytes, context: LibraryContext) -> bytes | None:
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
            raise asyncio.CancelledError from None  # grpcio then sends nothing

    made = grpc.stream_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
    return made(serve_call)


class Reminder:
    """A context manager that cancels the current task again if model code ignored the first cancellation.

    grpcio cancels a task only once. The interval is `PATIENCE` seconds.
    """

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelled_before = False
        self._timer = self._schedule()

    def _schedule(self) -> asyncio.TimerHandle:
        return self._task.get_loop().call_later(PATIENCE, self._check)

    def _check(self) -> None:
        if self._cancelled_before:
            logger.error(
                "model code is still running %g s after its cancellation; cancelling it again", PATIENCE
            )
            self._task.cancel()
        self._cancelled_before = self._task.cancelling() > 0
        self._timer = self._schedule()

    def __enter__(self) -> None:
        """Do nothing, because `__init__` has started the timer."""

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
