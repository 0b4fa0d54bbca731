"""Those who follow the access log of a server that runs."""

import asyncio
from collections.abc import Callable

from ..concurrency.channel import Channel
from .access import AccessLines, AccessRecord

MOST_WAITING = 1024
"""Records that wait for one follower. Further ones are dropped and counted."""

MOST_FOLLOWERS = 16


class LogFollower(Channel[AccessRecord]):
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


class LogFollowers:
    """The followers at one front end. They see the records of all front ends."""

    def __init__(self, lines: AccessLines) -> None:
        self._lines = lines
        self._followers: list[LogFollower] = []
        self.changed: Callable[[bool], object] = lambda _: None
        """Called when the first one comes and when the last one goes."""

    @property
    def full(self) -> bool:
        """Whether there are as many as may be."""
        return len(self._followers) >= MOST_FOLLOWERS

    def open(self, model: str | None, errors: bool) -> LogFollower:
        """Follow the log until `close`."""
        follower = LogFollower(model, errors)
        self._followers.append(follower)
        self._lines.add(follower.put)
        if len(self._followers) == 1:
            self.changed(True)
        return follower

    def close(self, follower: LogFollower) -> None:
        self._followers.remove(follower)
        self._lines.remove(follower.put)
        if not self._followers:
            self.changed(False)

    def put_foreign(self, records: list[AccessRecord], dropped: int) -> None:
        """Show the followers records of another front end."""
        for follower in self._followers:
            follower.lost(dropped)
            for record in records:
                follower.put(record)

    def end(self) -> None:
        for follower in self._followers:
            follower.end()
