"""Adapts Ray Serve calls to the handlers of a `grpc.aio` server. Messages are bytes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Never, Protocol

import grpc
from grpc.aio import EOF  # type: ignore[attr-defined]  # missing from the type stubs

from inferstream.ext.calls import Channel, Tasks
from inferstream.ext.rpc import RpcFailed, StatusCode

WINDOW = 64
"""Maximum number of buffered stream responses."""

Messages = bytes | AsyncIterator[bytes]
"""The request of a unary call, or the requests of a stream."""

Metadata = Sequence[tuple[str, str | bytes]]


class Sent:
    """A response for Ray Serve, which calls `SerializeToString` on it and sends the result."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def SerializeToString(self) -> bytes:  # noqa: N802  # Ray Serve calls this name.
        return self._data


class ServeContext(Protocol):
    """The methods of the Ray Serve gRPC context that `RayContext` calls."""

    def invocation_metadata(self) -> Metadata: ...
    def peer(self) -> str: ...
    def peer_identities(self) -> Sequence[bytes] | None: ...
    def set_code(self, code: grpc.StatusCode) -> None: ...
    def set_details(self, details: str) -> None: ...
    def set_trailing_metadata(self, metadata: list[tuple[str, str | bytes]]) -> None: ...


class RayContext:
    """Adapts a Ray Serve context to `grpc.aio`.

    Ray Serve passes no deadline, and cancels the call when the client disconnects. It does not support
    initial metadata, which is therefore sent as trailing metadata.
    """

    def __init__(self, context: ServeContext, messages: Messages) -> None:
        self._messages = _iterate_once(messages) if isinstance(messages, bytes) else messages
        self._context = context
        self._initial: Metadata = ()
        self._trailing: Metadata = ()
        self.invocation_metadata = context.invocation_metadata
        self.peer = context.peer
        self.peer_identities = context.peer_identities
        self.responses: Channel[Sent] = Channel(WINDOW)

    def time_remaining(self) -> None:
        """Return None, because Ray Serve does not pass a deadline."""

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
        """End the call with this status. Ray Serve reads it from the context after the exception."""
        self._context.set_code(code)
        self._context.set_details(details)
        self.set_trailing_metadata((*self._trailing, *trailing_metadata))
        raise RpcFailed(StatusCode[code.name], details) from None


class Called(NamedTuple):
    """The part of `grpc.HandlerCallDetails` that is needed to look up a handler."""

    method: str


class RayRpcs:
    """Provides the RPCs as callables for Ray Serve, for single messages and streams."""

    def __init__(self, services: tuple[Any, ...]) -> None:
        """`services` is the result of `Application.grpc_services`."""
        (rpcs,) = services
        self._find = rpcs.service
        """Returns the handler of an RPC, or None if it is not implemented."""
        self._streams = Tasks()

    def end(self) -> None:
        """Cancel the remaining streams, such as health watches."""
        self._streams.cancel()

    def find_callable(self, path: str) -> Callable[..., Awaitable[Sent | AsyncIterator[Sent]]]:
        """Return the callable for an RPC.

        The RPC may not exist yet, because typed RPCs are added with their models.
        """

        async def call(messages: Messages, grpc_context: ServeContext) -> Sent | AsyncIterator[Sent]:
            handler, context = self._find(Called(path)), RayContext(grpc_context, messages)
            if not isinstance(messages, bytes) or (handler is not None and handler.response_streaming):
                return self._stream(path, handler, context)
            if handler is None:
                await _refuse(path, context)
            return Sent(await handler.unary_unary(messages, context))

        return call

    async def _stream(self, path: str, handler: Any, context: RayContext) -> AsyncIterator[Sent]:
        """Yield the responses of a call. If Ray Serve stops reading, the call is cancelled."""
        serving = self._streams.start(_serve(path, handler, context))
        try:
            async for response in context.responses:
                yield response
        finally:
            context.responses.close()
            serving.cancel()
            await asyncio.wait([serving])


async def _serve(path: str, handler: Any, context: RayContext) -> None:
    """Serve a stream, or a unary RPC that Ray Serve calls as a stream."""
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


async def _iterate_once(message: bytes) -> AsyncIterator[bytes]:
    yield message
