"""The last events of one stream, for a client that comes back."""

import asyncio

from ...concurrency.outgoing import TOGETHER_BYTES
from ...errors import Gone, InvalidRequest

OVERHEAD = 41
"""Bytes of memory that an event takes beside its own: its object and its place in the list."""


class Recording:
    """Events with numbers from 1, at most `items` of them in `room` bytes of memory, and one more.

    A full recording drops the oldest that a reader has taken. `space` waits where there are none, which holds the
    model back.
    """

    def __init__(self, items: int, room: int) -> None:
        self._items = items
        self._room = room
        self._events: list[bytes] = []
        self._size = 0
        self._dropped = 0
        self._taken = 0
        """The number of the last event that a reader has taken."""
        self._closed = False
        self.ended = False
        """Whether the last event is there."""
        self._news = asyncio.Event()
        self._space = asyncio.Event()

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self._dropped + len(self._events)

    def add(self, event: bytes) -> None:
        self._events.append(event)
        self._size += len(event) + OVERHEAD
        self._news.set()

    def end(self) -> None:
        """No event follows."""
        self.ended = True
        self._news.set()

    def close(self) -> None:
        """Hold the model back no longer: it has ended, or nobody reads any more."""
        self._closed = True
        self._space.set()

    @property
    def full(self) -> bool:
        return not self._closed and (len(self._events) >= self._items or self._size >= self._room)

    async def space(self) -> None:
        """Wait until one more event has space."""
        while self.full:
            if self._taken > self._dropped:
                self._drop()
            else:
                self._space.clear()
                await self._space.wait()

    def _drop(self) -> None:
        """Drop a quarter, or what has been taken: one at a time would move all others each time."""
        count = min(self._taken - self._dropped, len(self._events) // 4 + 1)
        self._size -= sum(map(len, self._events[:count])) + count * OVERHEAD
        del self._events[:count]
        self._dropped += count

    def check(self, number: int) -> None:
        """Whether the events after this one are here. Raises Gone, InvalidRequest."""
        if number < self._dropped:
            raise Gone(
                f"Event {number + 1} of the stream is not recorded any more; "
                "the settings resume_items and resume_bytes limit how many are."
            )
        if number > self.last:
            raise InvalidRequest(
                f"The stream has {self.last} events so far, and none with the number {number}."
            )

    def after(self, number: int) -> tuple[bytes, int]:
        """The events after this one, as many as leave together, and the number of the last of them."""
        self.check(number)
        events = self._events
        start = end = number - self._dropped
        size = 0
        while end < len(events) and (end == start or size + len(events[end]) <= TOGETHER_BYTES):
            size += len(events[end])
            end += 1
        self._taken = max(self._taken, number)  # the client wants the next ones, so it may have got these
        self._space.set()
        return b"".join(events[start:end]), number + end - start

    async def news(self) -> None:
        """Wait until there is an event or the end."""
        self._news.clear()
        await self._news.wait()

    def interrupt(self) -> None:
        """End the wait of a reader."""
        self._news.set()
