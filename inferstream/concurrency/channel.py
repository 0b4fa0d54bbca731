"""Bounded channels: items from producers to one reader, then the end or an error."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Self, TypeVar

T = TypeVar("T")


class Channel(AsyncIterator[T]):
    """Items in order, at most `bound` of them before a producer must wait. The reader gets an error after the items.

    One task reads at a time. Producers are tasks of its event loop, unless it is a `ThreadChannel`.
    """

    # Class attributes, because most channels never change them: setting them would cost part of a small request.
    open = True
    """Whether an item that is put reaches the reader."""
    ended = False
    _error: BaseException | None = None
    _reader: asyncio.Future[None] | None = None
    _producers: deque[asyncio.Future[None]] | None = None
    _watched = False
    """Whether `_taken` is called when an item leaves."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._items: deque[T] = deque()
        self._loop = asyncio.get_running_loop()

    # For producers.

    def put(self, item: T) -> None:
        """Append an item; one after the end is dropped. Does not wait: `has_room` and `room` hold a producer back."""
        if self.open:
            self._items.append(item)
            if self._reader is not None:
                self._wake()

    def end(self, error: BaseException | None = None) -> None:
        """No item follows. The reader gets `error` after the items. A second end changes nothing."""
        if not self.ended:
            self._error = error
            self.ended = True
            self.open = False
            self._wake()

    def has_room(self) -> bool:
        """Whether fewer than `bound` items wait. Otherwise `_go_on` is called when there is room again."""
        if not self._full():
            return True
        self._watched = True
        return not self._full()  # a reader in another thread may have taken one before it could see that

    async def room(self) -> None:
        """Wait until an item may be put. Producers wait in order."""
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
                    self._go_on()  # another producer instead
                raise

    # For the reader.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """The next item. Raises the error of the end, once, or StopAsyncIteration."""
        items = self._items
        while not items:
            if not self.open and not items:
                raise self._end()
            await self.news()
        item = items.popleft()
        if self._watched:
            self._taken()
        return item

    def pop(self) -> T:
        """The next item, which must exist."""
        item = self._items.popleft()
        if self._watched:
            self._taken()
        return item

    @property
    def empty(self) -> bool:
        """Whether no item waits."""
        return not self._items

    @property
    def awaited(self) -> bool:
        """Whether the reader waits."""
        return self._reader is not None

    def news(self) -> asyncio.Future[None]:
        """A future that is done when there is an item or the end. It may be done too early: check, and wait again."""
        reader = self._reader = self._loop.create_future()
        if self._items or not self.open:  # another thread put an item before it could see who waits
            reader.set_result(None)
        return reader

    def close(self) -> None:
        """The reader leaves: what waits and what follows is dropped, and producers do not wait."""
        self.open = False
        self._items.clear()
        self._wake()
        self._go_on()
        while self._producers:
            self._go_on()

    def _end(self) -> BaseException:
        """The error of the end. An error that stays here would be a reference cycle."""
        error, self._error = self._error, None
        return error or StopAsyncIteration()

    def _full(self) -> bool:
        return len(self._items) >= self._bound

    def _wake(self) -> None:
        """Let the reader read on."""
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def _taken(self) -> None:
        """An item has left."""
        if not self._full():
            self._go_on()

    def _go_on(self) -> None:
        """Let the first producer that waits go on."""
        producers = self._producers
        while producers:
            producer = producers.popleft()
            if not producer.done():
                producer.set_result(None)
                break
        self._watched = bool(producers) or type(self)._watched


class SizedChannel(Channel[T]):
    """A channel that is full too when the sizes of its items add up to `most`."""

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

    def _taken(self) -> None:
        self.size -= self._sizes.popleft()
        if not self._full():
            self._go_on()


class ThreadChannel(Channel[T]):
    """A channel whose only producer is another thread. A subclass lets the thread go on in `_go_on`.

    Each side stores its own fact before it looks at the other's, so that no wake-up is lost. A thread that waited goes
    on when all items are taken: waking it costs more than an item.
    """

    def _taken(self) -> None:
        if not self._items:
            self._go_on()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._resume)
        except RuntimeError:
            self.open = False  # the loop was closed: the thread outlived the shutdown grace

    def _resume(self) -> None:
        super()._wake()
