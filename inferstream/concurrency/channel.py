"""Bounded channels from producers to one reader, with an optional error after the last item."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Self, TypeVar

T = TypeVar("T")


class Channel(AsyncIterator[T]):
    """A bounded queue: producers should wait while it has `bound` items.

    It can end with an error, which follows the last item. Only one task reads at a time. Producers are tasks
    of the same event loop, except in a `ThreadChannel`.
    """

    # Class attributes: most channels never change them, and setting them would slow down small requests.
    open = True
    """Whether the channel still accepts items."""
    ended = False
    _error: BaseException | None = None
    _reader: asyncio.Future[None] | None = None
    _producers: deque[asyncio.Future[None]] | None = None
    _watched = False
    """Whether `_after_take` is called when an item is removed."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._items: deque[T] = deque()
        self._loop = asyncio.get_running_loop()

    # Methods for producers.

    def put(self, item: T) -> None:
        """Append an item without waiting. Use `has_room` or `room` for backpressure.

        Items after the end are dropped.
        """
        if self.open:
            self._items.append(item)
            if self._reader is not None:
                self._wake()

    def end(self, error: BaseException | None = None) -> None:
        """End the channel. The reader receives any `error` after the items. A second call has no effect."""
        if not self.ended:
            self._error = error
            self.ended = True
            self.open = False
            self._wake()

    def has_room(self) -> bool:
        """Whether fewer than `bound` items are queued.

        If not, `_go_on` is called when there is room again.
        """
        if not self._full():
            return True
        self._watched = True
        return not self._full()  # check again: a reader in another thread may have missed `_watched`

    async def room(self) -> None:
        """Wait until there is room for an item. Waiting producers resume in order."""
        waited = False
        while not self.has_room() or (self._producers and not waited):
            if self._producers is None:
                self._producers = deque()
            producer = self._loop.create_future()
            if waited:
                self._producers.appendleft(producer)
            else:
                self._producers.append(producer)
            waited = True
            try:
                await producer
            except BaseException:
                if not producer.cancelled():
                    self._go_on()  # wake another producer instead
                raise

    # Methods for the reader.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Return the next item. At the end, raises the error once, and then StopAsyncIteration."""
        items = self._items
        while not items:
            if not self.open and not items:
                raise self._end()
            await self.news()
        item = items.popleft()
        if self._watched:
            self._after_take()
        return item

    def pop(self) -> T:
        """Return the next item. The channel must not be empty."""
        item = self._items.popleft()
        if self._watched:
            self._after_take()
        return item

    @property
    def empty(self) -> bool:
        """Whether no items are queued."""
        return not self._items

    @property
    def awaited(self) -> bool:
        """Whether the reader is waiting."""
        return self._reader is not None

    def news(self) -> asyncio.Future[None]:
        """Return a future that completes when there is an item or the end.

        It may complete early, so check again.
        """
        reader = self._reader = self._loop.create_future()
        if self._items or not self.open:  # another thread may have missed `_reader`
            reader.set_result(None)
        return reader

    def close(self) -> None:
        """Stop reading. Queued and later items are dropped, and producers no longer wait."""
        self.open = False
        self._items.clear()
        self._wake()
        self._go_on()
        while self._producers:
            self._go_on()

    def _end(self) -> BaseException:
        """Return the exception for the end. Keeping a reference to the error would create a cycle."""
        error, self._error = self._error, None
        return error or StopAsyncIteration()

    def _full(self) -> bool:
        return len(self._items) >= self._bound

    def _wake(self) -> None:
        """Resume the reader."""
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def _after_take(self) -> None:
        """Called after an item was removed."""
        if not self._full():
            self._go_on()

    def _go_on(self) -> None:
        """Resume the first waiting producer."""
        producers = self._producers
        while producers:
            producer = producers.popleft()
            if not producer.done():
                producer.set_result(None)
                break
        self._watched = bool(producers) or type(self)._watched


class SizedChannel(Channel[T]):
    """A channel that is also full while the sizes of its items add up to `most` or more."""

    _watched = True

    def __init__(self, bound: int, most: int) -> None:
        super().__init__(bound)
        self._most = most
        self._sizes: deque[int] = deque()
        self.size = 0

    def put(self, item: T, size: int = 0) -> None:
        if self.open:
            self._items.append(item)
            self._sizes.append(size)
            self.size += size
            if self._reader is not None:
                self._wake()

    def close(self) -> None:
        self._sizes.clear()
        self.size = 0
        super().close()

    def _full(self) -> bool:
        return len(self._items) >= self._bound or self.size >= self._most

    def _after_take(self) -> None:
        self.size -= self._sizes.popleft()
        if not self._full():
            self._go_on()


class ThreadChannel(Channel[T]):
    """A channel whose only producer is another thread. Subclasses resume the thread in `_go_on`.

    Each side sets its own flag before it checks the other's, so that no wake-up is lost. A waiting thread
    resumes only when the channel is empty, because waking it takes longer than handling an item.
    """

    def _after_take(self) -> None:
        if not self._items:
            self._go_on()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._resume)
        except RuntimeError:
            self.open = False  # the loop is closed: the thread outlived the shutdown grace period

    def _resume(self) -> None:
        super()._wake()
