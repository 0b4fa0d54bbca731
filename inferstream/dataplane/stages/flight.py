"""A shared computation and its readers. Each reader receives all responses at its own pace."""

import asyncio
import sys
from collections.abc import Callable
from operator import methodcaller

from ...concurrency.channel import SizedChannel
from ...concurrency.scope import ClientLeft, Scope
from ...types import InferenceResponse
from ..call import Call
from ..reply import Direct, Reply, StreamReply
from .store import Snapshot, Store

WINDOW = 2**20
"""Bytes by which the fastest reader may lead the slowest if a stream is too large for the cache."""


class Flight:
    """Records the responses of one call for its readers. When the last reader leaves, the call is cancelled.

    New readers may join as long as all responses are `retained`. If a stream is too large for the store, only
    responses that some reader has not read are kept. The model continues once any reader has read everything.
    """

    def __init__(self, store: Store, call: Call) -> None:
        self.retained = True
        self.single = False
        self.size = 0
        self.responses: list[Snapshot] = []
        """All responses so far, while they are retained."""
        self.call = call
        """The shared call. Its `expired` is copied from the last reader that leaves."""
        self.task: asyncio.Task[None] | None = None
        self._store = store
        self._readers: set[FlightReader] = set()
        self._next_wanted = asyncio.Event()
        self.go_on = self._next_wanted.set
        """Wakes up the model. Called when a reader is waiting, has caught up, or has left."""

    @property
    def readers(self) -> int:
        """Number of callers that have not read everything."""
        return len(self._readers)

    async def reply(self, request_id: str | None) -> Reply:
        """Return the reply for one caller, once the first response exists."""
        reader = FlightReader(self)
        self._readers.add(reader)
        try:
            first = (await anext(reader)).response(request_id)
        except StopAsyncIteration:
            return StreamReply(None, reader)
        except BaseException:  # Including cancellation.
            self.leave(reader)
            raise
        if not self.single:
            finish: Callable[[Snapshot], InferenceResponse] = methodcaller("response", request_id)
            return StreamReply(first, reader, Direct(reader.__anext__, finish, lambda error: (error, None)))
        self.leave(reader)
        return Reply(first)

    def add(self, response: InferenceResponse) -> None:
        snapshot = Snapshot(response)
        if self.retained and not (
            self.size + snapshot.size <= self._store.largest and self._store.reserve(snapshot.size)
        ):
            self.give_up()
        if self.retained:
            self.responses.append(snapshot)
            self.size += snapshot.size
        for reader in self._readers:
            reader.put(snapshot, snapshot.size)

    def give_up(self) -> None:
        """Stop retaining the responses, because they are too large, the call failed, or no reader is left."""
        if self.retained:
            self.retained = False
            self.responses.clear()
            self._store.release(self.size)

    def end(self, error: BaseException | None) -> None:
        self.task = None
        for reader in self._readers:
            reader.end(error)

    async def wait_for_reader(self) -> None:
        """Wait until a reader has read everything and no other reader is too far behind."""
        readers = self._readers
        while not any(reader.awaited for reader in readers) or (
            not self.retained and not all(reader.has_room() for reader in readers)
        ):
            self._next_wanted.clear()
            await self._next_wanted.wait()

    def leave(self, reader: "FlightReader") -> None:
        self._readers.discard(reader)
        reader.close()
        task = self.task
        if self._readers or self.single or task is None:
            self.go_on()
            return
        self.give_up()
        Scope(task).end(ClientLeft())


class FlightReader(SizedChannel[Snapshot]):
    """The responses that one caller has not read. It wakes up its flight when it waits or has caught up."""

    def __init__(self, flight: Flight) -> None:
        super().__init__(sys.maxsize, WINDOW)
        self._flight = flight
        for snapshot in flight.responses:
            self.put(snapshot, snapshot.size)

    def news(self) -> asyncio.Future[None]:
        self._flight.go_on()
        return super().news()

    def _go_on(self) -> None:
        self._flight.go_on()

    async def aclose(self) -> None:
        self._flight.leave(self)
