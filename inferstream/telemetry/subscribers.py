"""Subscribers of the access log of a server that runs."""

import asyncio
from collections.abc import Callable

from ..concurrency.channel import Channel
from .access import AccessLines, AccessRecord

MOST_WAITING = 1024
"""Records that wait for one subscriber. Further ones are dropped and counted."""

MOST_SUBSCRIBERS = 16


class Subscriber(Channel[AccessRecord]):
    """Reads records as they come. A slow reader loses records, and learns how many."""

    def __init__(self, model: str | None, errors: bool) -> None:
        super().__init__(MOST_WAITING)
        self._model = model
        self._errors = errors
        self._dropped = 0

    def put(self, record: AccessRecord) -> None:
        if (self._errors and record.status == "success") or self._model not in (None, record.model):
            return
        if self.has_room():
            super().put(record)
        else:
            self._dropped += 1

    def lost(self, count: int) -> None:
        """Records were dropped on their way here."""
        self._dropped += count

    async def read(self, seconds: float) -> tuple[list[AccessRecord], int]:
        """The records since the last time, after at most so many seconds, and how many were dropped."""
        if self.open and not self._items:
            try:
                async with asyncio.timeout(seconds):
                    await self.news()
            except TimeoutError:
                return [], 0
        records = list(self._items)
        self._items.clear()
        dropped, self._dropped = self._dropped, 0
        return records, dropped


class Subscribers:
    """The subscribers at one front end. They see the records of all front ends."""

    def __init__(self, lines: AccessLines) -> None:
        self._lines = lines
        self._subscribers: list[Subscriber] = []
        self.changed: Callable[[bool], object] = lambda _: None
        """Called when the first one comes and when the last one goes."""

    @property
    def full(self) -> bool:
        """Whether there are as many as may be."""
        return len(self._subscribers) >= MOST_SUBSCRIBERS

    def open(self, model: str | None, errors: bool) -> Subscriber:
        """A new subscriber, until `close`."""
        subscriber = Subscriber(model, errors)
        self._subscribers.append(subscriber)
        self._lines.add(subscriber.put)
        if len(self._subscribers) == 1:
            self.changed(True)
        return subscriber

    def close(self, subscriber: Subscriber) -> None:
        self._subscribers.remove(subscriber)
        self._lines.remove(subscriber.put)
        if not self._subscribers:
            self.changed(False)

    def put_foreign(self, records: list[AccessRecord], dropped: int) -> None:
        """Show the subscribers records of another front end."""
        for subscriber in self._subscribers:
            subscriber.lost(dropped)
            for record in records:
                subscriber.put(record)

    def end(self) -> None:
        for subscriber in self._subscribers:
            subscriber.end()
