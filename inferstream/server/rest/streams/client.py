"""The client of one request over HTTP/2."""

import asyncio
from typing import Any

from ....concurrency.scope import ClientLeft, Scope
from ...connections import address, identities
from ...http2.errors import ErrorCode
from ...http2.stream import Stream


class StreamClient:
    """The connection that the server of one request sees: it is lost with the stream, and ends nothing else."""

    __slots__ = ("_stream", "_task", "loop", "lost", "scheme")

    def __init__(self, stream: Stream, scheme: str) -> None:
        self._stream = stream
        self._task: asyncio.Task[Any] | None = None
        self.loop: asyncio.AbstractEventLoop = stream.connection.loop
        self.lost = False
        """Whether the client has left."""
        self.scheme = scheme

    @property
    def transport(self) -> "StreamClient":
        """What `abort` ends."""
        return self

    @property
    def client(self) -> tuple[str, int] | None:
        name = self._stream.connection.peername
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None

    @property
    def server(self) -> tuple[str, int] | None:
        name = self._stream.connection.transport.get_extra_info("sockname")
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None

    @property
    def peer(self) -> str:
        return address(self.client)

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the client's verified certificate."""
        return identities(self._stream.connection.transport.get_extra_info("peercert"))

    def hold(self, task: asyncio.Task[Any]) -> None:
        """Cancel `task` if the client leaves before `release`."""
        self._task = task

    def release(self, task: asyncio.Task[Any]) -> None:
        if self._task is task:
            self._task = None

    def abort(self) -> None:
        """Drop the client."""
        self._stream.reset(ErrorCode.CANCEL)
        self.leave()

    def leave(self) -> None:
        """Take note that the client has left, and cancel what is served."""
        if self.lost:
            return
        self.lost = True
        if (task := self._task) is not None:
            Scope(task).end(ClientLeft())
