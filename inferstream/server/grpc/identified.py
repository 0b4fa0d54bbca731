"""Gives each RPC the `x-request-id` of its metadata as initial metadata."""

from collections.abc import Awaitable, Sequence
from contextlib import suppress

from ...concurrency.scope import ClientLeft
from ...context import request_id_var
from ...errors import InvalidRequest
from ..request_ids import NAME, RequestIds, enter
from .context import RpcContext
from .rpc import RpcFailed, ServeRpc

Pairs = tuple[tuple[str, str | bytes], ...]


class IdentifiedRpcs:
    """Wraps RPCs. Calls without an id pass as they are, and cost a look at their metadata."""

    def __init__(self, ids: RequestIds) -> None:
        self._ids = ids

    def around(self, serve: ServeRpc) -> ServeRpc:
        every = self._ids.every

        def identified(incoming: bytes | None, context: RpcContext) -> Awaitable[bytes | None]:
            sent: str | bytes | None = None
            try:
                for name, value in context.invocation_metadata():
                    if name == NAME:
                        sent = value
            except InvalidRequest:  # `serve` raises it again, and counts it
                return serve(incoming, context)
            if sent is None and not every:
                return serve(incoming, context)
            return self._serve(serve, incoming, context, sent)

        return identified

    async def _serve(
        self, serve: ServeRpc, incoming: bytes | None, context: RpcContext, sent: str | bytes | None
    ) -> bytes | None:
        if request_id_var.get():  # gRPC-Web, whose response has the header already
            return await serve(incoming, context)
        request_id = self._ids.id(sent.encode() if isinstance(sent, str) else sent)
        assert request_id is not None
        enter(request_id)
        own = IdentifiedContext(context, request_id.decode())
        try:
            response = await serve(incoming, own)
        except RpcFailed:
            with suppress(ClientLeft):
                await own.open()
            raise
        await own.open()
        return response


class ContextAround:
    """The context of an RPC that passes everything to another."""

    __slots__ = ("_context",)

    def __init__(self, context: RpcContext) -> None:
        self._context = context

    @property
    def deadline(self) -> float | None:
        return self._context.deadline

    @property
    def peer(self) -> str:
        return self._context.peer

    @property
    def identities(self) -> tuple[str, ...]:
        return self._context.identities

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]]:
        return self._context.invocation_metadata()

    def read(self) -> Awaitable[bytes | None]:
        return self._context.read()

    def write(self, message: bytes, /) -> Awaitable[None]:
        return self._context.write(message)

    def send_initial_metadata(self, metadata: Pairs, /) -> Awaitable[None]:
        return self._context.send_initial_metadata(metadata)

    def set_trailing_metadata(self, metadata: Pairs, /) -> None:
        self._context.set_trailing_metadata(metadata)


class IdentifiedContext(ContextAround):
    """The context of an RPC whose initial metadata begins with its id."""

    __slots__ = ("_id", "_opened")

    def __init__(self, context: RpcContext, request_id: str) -> None:
        super().__init__(context)
        self._id = (NAME, request_id)
        self._opened = False

    async def open(self) -> None:
        """Send the initial metadata, if it is not sent."""
        if not self._opened:
            await self.send_initial_metadata(())

    def write(self, message: bytes, /) -> Awaitable[None]:
        return self._context.write(message) if self._opened else self._first(message)

    async def _first(self, message: bytes) -> None:
        await self.open()
        await self._context.write(message)

    async def send_initial_metadata(self, metadata: Pairs, /) -> None:
        self._opened = True
        await self._context.send_initial_metadata((self._id, *metadata))
