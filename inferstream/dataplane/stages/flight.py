"""One computation and its readers. Each reader gets all responses at its own pace."""

import asyncio

from ...concurrency.scope import ClientLeft, Scope
from ...types import InferenceResponse
from ..call import Call
from ..reply import Reply, StreamReply
from .store import Snapshot, Store

WINDOW = 2**20
"""Bytes that the fastest reader may be ahead of the slowest, in a stream too large for the cache."""


class Flight:
    """Records the responses of one call for its readers. The last reader ends the call when it leaves.

    New readers may join while everything is `retained`. A stream too large for the store drops what all readers have
    read. The model continues when a reader has read everything.
    """

    def __init__(self, store: Store) -> None:
        self.retained = True
        self.single = False
        self.ended = False
        self.size = 0
        self.responses: list[Snapshot] = []
        self.error: BaseException | None = None
        self.call: Call | None = None
        self.task: asyncio.Task[None] | None = None
        self._store = store
        self._forgotten = 0
        self._readers: set[Reader] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        self._next_wanted = asyncio.Event()

    @property
    def readers(self) -> int:
        """Callers that have not read everything."""
        return len(self._readers)

    async def reply(self, request_id: str | None) -> Reply:
        """The reply for one caller, when the first response exists."""
        reader = Reader(self, request_id)
        self._readers.add(reader)
        try:
            first = await reader.__anext__()
        except StopAsyncIteration:
            return StreamReply(None, reader)
        except BaseException:  # a cancelled reader too
            self.leave(reader)
            raise
        if not self.single:
            return StreamReply(first, reader)
        self.leave(reader)
        return Reply(first)

    def add(self, response: InferenceResponse) -> None:
        snapshot = Snapshot(response)
        if self.retained and not (
            self.size + snapshot.size <= self._store.largest and self._store.reserve(snapshot.size)
        ):
            self.give_up()
        self.responses.append(snapshot)
        self.size += snapshot.size
        self._wake_readers()

    def give_up(self) -> None:
        """Stop retaining this: it is too large, has failed, or has no reader."""
        if self.retained:
            self.retained = False
            self._store.release(self.size)
            self._forget()

    def end(self, error: BaseException | None) -> None:
        self.ended = True
        self.error = error
        self.task = None
        self._wake_readers()

    async def wanted(self) -> None:
        """Wait until a reader has read everything, and no other is too far behind."""
        while not self._waiting or (not self.retained and self.size > WINDOW):
            self._next_wanted.clear()
            await self._next_wanted.wait()

    def at(self, position: int) -> Snapshot | None:
        index = position - self._forgotten
        return self.responses[index] if index < len(self.responses) else None

    async def more(self) -> None:
        """Request one more response, and wait for it or for the end."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        self._next_wanted.set()
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)

    def read(self) -> None:
        if not self.retained:
            self._forget()

    def leave(self, reader: "Reader") -> None:
        self._readers.discard(reader)
        if self._readers or self.single or self.ended:
            self.read()
            if not self._readers:
                self.error = None  # its traceback refers to this, which would be a cycle
            return
        self.give_up()
        task = self.task
        assert task is not None
        Scope(task).end(ClientLeft())

    def expired(self, expired: bool) -> None:
        """Note whether the deadline of the reader that left has passed. The last reader's reason becomes the call's."""
        if self.call is not None:
            self.call.expired = expired

    def _forget(self) -> None:
        lowest = min((reader.position for reader in self._readers), default=self._forgotten)
        for snapshot in self.responses[: lowest - self._forgotten]:
            self.size -= snapshot.size
        del self.responses[: lowest - self._forgotten]
        self._forgotten = lowest
        self._next_wanted.set()

    def _wake_readers(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()


class Reader:
    __slots__ = ("_flight", "_request_id", "position")

    def __init__(self, flight: Flight, request_id: str | None) -> None:
        self._flight = flight
        self._request_id = request_id
        self.position = 0

    async def __anext__(self) -> InferenceResponse:
        flight = self._flight
        while (snapshot := flight.at(self.position)) is None:
            if flight.ended:
                raise flight.error or StopAsyncIteration
            await flight.more()
        self.position += 1
        flight.read()
        return snapshot.response(self._request_id)

    async def aclose(self) -> None:
        self._flight.leave(self)
