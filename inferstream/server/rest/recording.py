"""The recent events of one stream, for clients that reconnect."""

import asyncio

from ...concurrency.outgoing import TOGETHER_BYTES
from ...errors import Gone, InvalidRequest

OVERHEAD = 41
"""Memory overhead of an event in bytes: its object and its slot in the list."""


class Recording:
    """Events numbered from 1, limited to `items` events and `room` bytes, plus one event.

    A full recording drops the oldest events that the reader has received. If the reader has received none,
    `space` waits, which pauses the model.
    """

    def __init__(self, items: int, room: int) -> None:
        self._items = items
        self._room = room
        self._events: list[bytes] = []
        self._size = 0
        self._dropped = 0
        self._taken = 0
        """The number of the last event that the reader has received."""
        self._closed = False
        self.ended = False
        """Whether the last event has been added."""
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
        """Mark the recording as complete."""
        self.ended = True
        self._news.set()

    def close(self) -> None:
        """Stop pausing the model, because it has ended or no client reads any longer."""
        self._closed = True
        self._space.set()

    @property
    def full(self) -> bool:
        return not self._closed and (len(self._events) >= self._items or self._size >= self._room)

    async def wait_for_space(self) -> None:
        """Wait until another event fits."""
        while self.full:
            if self._taken > self._dropped:
                self._drop()
            else:
                self._space.clear()
                await self._space.wait()

    def _drop(self) -> None:
        """Drop up to a quarter of the events, because deleting one at a time would shift all the others."""
        count = min(self._taken - self._dropped, len(self._events) // 4 + 1)
        self._size -= sum(map(len, self._events[:count])) + count * OVERHEAD
        del self._events[:count]
        self._dropped += count

    def check(self, number: int) -> None:
        """Check that the events after event `number` are available. Raises Gone or InvalidRequest."""
        if number < self._dropped:
            raise Gone(
                f"Event {number + 1} of the stream is not recorded any more; "
                "the settings resume_items and resume_bytes limit how many are."
            )
        if number > self.last:
            raise InvalidRequest(
                f"The stream has {self.last} events so far, and none with the number {number}."
            )

    def read_after(self, number: int) -> tuple[bytes, int]:
        """Return the next events after event `number`, for a single write, and the number of the last one.

        Raises Gone or InvalidRequest.
        """
        self.check(number)
        events = self._events
        start = end = number - self._dropped
        size = 0
        while end < len(events) and (end == start or size + len(events[end]) <= TOGETHER_BYTES):
            size += len(events[end])
            end += 1
        self._taken = max(self._taken, number)  # the client has probably received these
        self._space.set()
        return b"".join(events[start:end]), number + end - start

    async def wait_for_news(self) -> None:
        """Wait for a new event or the end."""
        self._news.clear()
        await self._news.wait()

    def interrupt(self) -> None:
        """Wake up the waiting reader."""
        self._news.set()
