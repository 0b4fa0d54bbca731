"""RPCs of a replica that Serve calls, over bytes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

import grpc

from inferstream.ext.calls import Channel, Tasks
from inferstream.ext.rpc import RpcFailed, StatusCode

from ..server.grpc.grpcio.handlers import CODES, Reminder
from ..server.grpc.metadata import CallMetadata, Metadata
from ..server.grpc.rpc import Rpcs, ServedRpc

WINDOW = 64
"""Responses of a stream that may wait for Serve."""

Messages = bytes | AsyncIterator[bytes]
"""The only request of a call, or its requests."""


class Sent:
    """A response as Serve takes it: it asks each one for its bytes, and passes those."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def SerializeToString(self) -> bytes:  # noqa: N802  # the name that Serve calls
        return self._data


class ServeContext(Protocol):
    """The part of Serve's context that is used."""

    def invocation_metadata(self) -> Sequence[tuple[str, str | bytes]]: ...
    def peer(self) -> str: ...
    def peer_identities(self) -> Sequence[bytes] | None: ...
    def set_code(self, code: grpc.StatusCode) -> None: ...
    def set_details(self, details: str) -> None: ...
    def set_trailing_metadata(self, metadata: list[tuple[str, str | bytes]]) -> None: ...


class RayContext:
    """The context of an RPC over Serve's. Serve passes no deadline: it cancels the call when the client leaves.

    It has no way for initial metadata either, so they are trailing metadata here.
    """

    deadline = None

    def __init__(self, context: ServeContext, messages: Messages) -> None:
        self._context = context
        self._messages = _only(messages) if isinstance(messages, bytes) else messages
        self._trailing: Metadata = ()
        self.metadata = CallMetadata(context.invocation_metadata())
        self.responses: Channel[Sent] = Channel(WINDOW)

    @property
    def peer(self) -> str:
        return self._context.peer()

    @property
    def identities(self) -> tuple[str, ...]:
        return tuple(name.decode() for name in self._context.peer_identities() or ())

    async def read(self) -> bytes | None:
        return await anext(self._messages, None)

    async def write(self, message: bytes, /) -> None:
        await self.responses.room()
        self.responses.put(Sent(message))

    def add_trailing_metadata(self, metadata: Metadata, /) -> None:
        self._trailing += metadata
        self._context.set_trailing_metadata(list(self._trailing))

    add_initial_metadata = add_trailing_metadata

    async def send_initial_metadata(self, metadata: Metadata, /) -> None:
        self.add_trailing_metadata(metadata)

    def fail(self, failed: RpcFailed) -> None:
        """Let Serve end the call with this status. It takes it from the context once the call has raised."""
        self._context.set_code(CODES[failed.code])
        self._context.set_details(failed.message)
        self.add_trailing_metadata(failed.trailing)


class RayRpcs:
    """The RPCs as Serve calls them: with a request or a stream of them, and for a response or a stream of them."""

    def __init__(self, rpcs: Rpcs) -> None:
        self._rpcs = rpcs
        self._streams = Tasks()

    def end(self) -> None:
        """End the streams that go on, which are those of watchers once the models have none."""
        self._streams.cancel()

    def of(self, path: str) -> Callable[..., Awaitable[Sent | AsyncIterator[Sent]]]:
        """The method for the calls of an RPC, which need not exist yet: typed RPCs come with their models."""

        async def call(messages: Messages, grpc_context: ServeContext) -> Sent | AsyncIterator[Sent]:
            rpc, context = self._rpcs.find(path), RayContext(grpc_context, messages)
            if not isinstance(messages, bytes) or (rpc is not None and rpc.server_streams):
                return self._stream(path, rpc, context)
            try:
                with Reminder():
                    response = await _existing(path, rpc).serve(messages, context)
            except RpcFailed as failed:
                context.fail(failed)
                raise
            assert response is not None
            return Sent(response)

        return call

    async def _stream(self, path: str, rpc: ServedRpc | None, context: RayContext) -> AsyncIterator[Sent]:
        """The responses of a call. It ends the call if Serve leaves."""
        serving = self._streams.start(_serve(path, rpc, context))
        try:
            async for response in context.responses:
                yield response
        finally:
            context.responses.close()
            serving.cancel()
            await asyncio.wait([serving])


async def _serve(path: str, rpc: ServedRpc | None, context: RayContext) -> None:
    """Serve a stream, or a unary RPC of which Serve knows no kind."""
    try:
        rpc = _existing(path, rpc)
        with Reminder():
            if rpc.client_streams or rpc.server_streams:
                await rpc.serve(None, context)
            else:
                response = await rpc.serve(await context.read() or b"", context)
                assert response is not None
                await context.write(response)
    except RpcFailed as failed:
        context.fail(failed)
        context.responses.end(failed)
    finally:
        context.responses.end()


def _existing(path: str, rpc: ServedRpc | None) -> ServedRpc:
    if rpc is None:
        raise RpcFailed(StatusCode.UNIMPLEMENTED, f'There is no RPC "{path}".')
    return rpc


async def _only(message: bytes) -> AsyncIterator[bytes]:
    yield message
