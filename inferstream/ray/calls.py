"""RPCs of a replica that Serve calls, over bytes: the handlers of a `grpc.aio` server with a context of Serve's."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Never, Protocol

import grpc
from grpc.aio import EOF  # type: ignore[attr-defined]  # missing from the stubs

from inferstream.ext.calls import Channel, Tasks
from inferstream.ext.rpc import RpcFailed, StatusCode

WINDOW = 64
"""Responses of a stream that may wait for Serve."""

Messages = bytes | AsyncIterator[bytes]
"""The only request of a call, or its requests."""

Metadata = Sequence[tuple[str, str | bytes]]


class Sent:
    """A response as Serve takes it: it asks each one for its bytes, and passes those."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def SerializeToString(self) -> bytes:  # noqa: N802  # the name that Serve calls
        return self._data


class ServeContext(Protocol):
    """The part of Serve's context that is used."""

    def invocation_metadata(self) -> Metadata: ...
    def peer(self) -> str: ...
    def peer_identities(self) -> Sequence[bytes] | None: ...
    def set_code(self, code: grpc.StatusCode) -> None: ...
    def set_details(self, details: str) -> None: ...
    def set_trailing_metadata(self, metadata: list[tuple[str, str | bytes]]) -> None: ...


class RayContext:
    """A context of `grpc.aio` over Serve's. Serve passes no deadline: it cancels the call when the client leaves.

    It has no way for initial metadata either, so they are trailing metadata here.
    """

    def __init__(self, context: ServeContext, messages: Messages) -> None:
        self._messages = _only(messages) if isinstance(messages, bytes) else messages
        self._context = context
        self._initial: Metadata = ()
        self._trailing: Metadata = ()
        self.invocation_metadata = context.invocation_metadata
        self.peer = context.peer
        self.peer_identities = context.peer_identities
        self.responses: Channel[Sent] = Channel(WINDOW)

    def time_remaining(self) -> None:
        """No deadline."""

    async def read(self) -> Any:
        return await anext(self._messages, EOF)

    async def write(self, message: bytes, /) -> None:
        await self.responses.room()
        self.responses.put(Sent(message))

    async def send_initial_metadata(self, metadata: Metadata, /) -> None:
        self._initial = (*self._initial, *metadata)
        self.set_trailing_metadata(self._trailing)

    def set_trailing_metadata(self, metadata: Metadata, /) -> None:
        self._trailing = metadata
        self._context.set_trailing_metadata([*self._initial, *metadata])

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Metadata = (), /) -> Never:
        """Let Serve end the call with this status. It takes it from the context once the call has raised."""
        self._context.set_code(code)
        self._context.set_details(details)
        self.set_trailing_metadata((*self._trailing, *trailing_metadata))
        raise RpcFailed(StatusCode[code.name], details) from None


class Called(NamedTuple):
    """The part of `grpc.HandlerCallDetails` that finds a handler."""

    method: str


class RayRpcs:
    """The RPCs as Serve calls them: with a request or a stream of them, and for a response or a stream of them."""

    def __init__(self, services: tuple[Any, ...]) -> None:
        """`services` is what `Application.grpc_services` returns."""
        (rpcs,) = services
        self._find = rpcs.service
        """Returns the handler of an RPC; None for one that is not implemented."""
        self._streams = Tasks()

    def end(self) -> None:
        """End the streams that go on, which are those of watchers once the models have none."""
        self._streams.cancel()

    def of(self, path: str) -> Callable[..., Awaitable[Sent | AsyncIterator[Sent]]]:
        """The method for the calls of an RPC, which need not exist yet: typed RPCs come with their models."""

        async def call(messages: Messages, grpc_context: ServeContext) -> Sent | AsyncIterator[Sent]:
            handler, context = self._find(Called(path)), RayContext(grpc_context, messages)
            if not isinstance(messages, bytes) or (handler is not None and handler.response_streaming):
                return self._stream(path, handler, context)
            if handler is None:
                await _refuse(path, context)
            return Sent(await handler.unary_unary(messages, context))

        return call

    async def _stream(self, path: str, handler: Any, context: RayContext) -> AsyncIterator[Sent]:
        """The responses of a call. It ends the call if Serve leaves."""
        serving = self._streams.start(_serve(path, handler, context))
        try:
            async for response in context.responses:
                yield response
        finally:
            context.responses.close()
            serving.cancel()
            await asyncio.wait([serving])


async def _serve(path: str, handler: Any, context: RayContext) -> None:
    """Serve a stream, or a unary RPC of which Serve knows no kind."""
    try:
        if handler is None:
            await _refuse(path, context)
        if handler.response_streaming:
            await handler.stream_stream(None, context)
        else:
            request = await context.read()
            await context.write(await handler.unary_unary(b"" if request is EOF else request, context))
    except RpcFailed as failed:
        context.responses.end(failed)
    finally:
        context.responses.end()


async def _refuse(path: str, context: RayContext) -> Never:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, f'There is no RPC "{path}".')


async def _only(message: bytes) -> AsyncIterator[bytes]:
    yield message
