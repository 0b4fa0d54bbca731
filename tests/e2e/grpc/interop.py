"""The service of gRPC's interoperability cases, with messages of JSON that zeros may follow."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from inferstream.concurrency.scope import ClientLeft
from inferstream.server.grpc.context import RpcContext
from inferstream.server.grpc.rpc import Rpc, RpcFailed
from inferstream.server.grpc.statuses import StatusCode

SERVICE = "testing.Interop"
INITIAL = "x-grpc-test-echo-initial"
TRAILING = "x-grpc-test-echo-trailing-bin"


def message(size: int = 0, **options: Any) -> bytes:
    """The options of a call; `size` is that of the message at least."""
    return json.dumps(options).encode().ljust(size, b"\0")


def read(data: bytes) -> dict[str, Any]:
    found = bytes(data).rstrip(b"\0")
    return json.loads(found) if found else {}


class Interop:
    """
    The RPCs, and what became of their calls.

    A message says what its call does: `sizes` are those of the responses, `sleep` are seconds, `code` and `message`
    are a status to fail with.
    """

    def __init__(self) -> None:
        self.ended: list[str] = []
        """How calls ended whose message has a `tag`."""
        self.clients: list[tuple[str, list[tuple[str, str | bytes]]]] = []
        """The peer and the metadata of each unary call, read while it runs: grpcio frees them with the call."""
        shapes: list[tuple[str, bool, bool, Callable[[Any, RpcContext], Awaitable[Any]]]] = [
            ("Empty", False, False, self.empty),
            ("Unary", False, False, self.unary),
            ("Input", True, False, self.input),
            ("Output", False, True, self.duplex),
            ("Duplex", True, True, self.duplex),
            ("Early", True, True, self.early),
        ]
        self._rpcs = {f"/{SERVICE}/{name}": Rpc(f"/{SERVICE}/{name}", *shape) for name, *shape in shapes}

    def find(self, path: str) -> Rpc | None:
        return self._rpcs.get(path)

    async def empty(self, data: bytes, context: RpcContext) -> bytes:
        assert not len(data)
        return b""

    async def unary(self, data: bytes, context: RpcContext) -> bytes:
        self.clients.append((context.peer, [*map(tuple, context.metadata.pairs)]))
        await self._echo_metadata(context)
        responses = await self._serve(data)
        return responses[0] if responses else b""

    async def input(self, _: None, context: RpcContext) -> None:
        total = 0
        while (data := await context.read()) is not None:
            total += len(data)
            await self._serve(data)
        await context.write(message(total=total))

    async def duplex(self, _: None, context: RpcContext) -> None:
        tag = None
        try:
            await self._echo_metadata(context)
            while (data := await context.read()) is not None:
                tag = read(data).get("tag", tag)
                for response in await self._serve(data):
                    await context.write(response)
        except (asyncio.CancelledError, ClientLeft):
            self.ended.append(f"{tag} left")
            raise
        else:
            self.ended.append(f"{tag} ended")

    async def early(self, _: None, context: RpcContext) -> None:
        """Ends well after one message, whatever the client still sends."""
        await context.read()
        await context.write(b"enough")

    async def _serve(self, data: bytes) -> list[bytes]:
        options = read(data)
        if (seconds := options.get("sleep")) is not None:
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                self.ended.append(f"{options.get('tag')} cancelled")
                raise
        if (code := options.get("code")) is not None:
            raise RpcFailed(
                StatusCode(code), options["message"], tuple(map(tuple, options.get("trailing", ())))
            )
        return [bytes(size) for size in options.get("sizes", ())]

    async def _echo_metadata(self, context: RpcContext) -> None:
        for name, value in context.metadata.pairs:
            if name == INITIAL:
                await context.send_initial_metadata(((INITIAL, str(value)),))
            elif name == TRAILING:
                assert isinstance(value, bytes)
                context.add_trailing_metadata((("x-echoed", value.hex()),))
