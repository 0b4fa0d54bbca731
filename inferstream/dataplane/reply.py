"""The reply to a call: the first response and, for a stream, the rest."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, NoReturn, Protocol, Self

from ..concurrency.outgoing import give
from ..concurrency.scope import Scope, swallowed
from ..concurrency.tasks import Tasks
from ..errors import Abandoned
from ..tokens import ToldUsage, usage_of
from ..types import InferenceResponse, Parameters


class Watcher:
    """Observes the responses of a reply, and its end. A subclass overrides the methods that it needs.

    Neither method may wait, and `end` may not raise. The reader gets an error of `item` in place of the response.
    `Call.end` ends a reply from within `item`.
    """

    __slots__ = ()

    sees_items = False
    """Whether the class overrides `item`; otherwise a reply does not call it."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.sees_items = cls.item is not Watcher.item

    def item(self, response: InferenceResponse) -> None:
        """Called with the first response when the watcher is added, with each other one before the reader gets it.

        A watcher that is added after the first read does not get the first response.
        """

    def end(self, error: BaseException | None) -> None:
        """Called once at the end: with None after the last response, with `Abandoned` if the reader left."""


class AtEnd(Watcher):
    """Calls `function` at the end of a reply, with its error or None."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[BaseException | None], object]) -> None:
        self._function = function

    def end(self, error: BaseException | None) -> None:
        self._function(error)


class CountedEnd(Watcher):
    """Calls `function` at the end of a reply, with its error or None, and the number of its responses."""

    __slots__ = ("_function", "_items")

    def __init__(self, function: Callable[[BaseException | None, int], object]) -> None:
        self._function = function
        self._items = 0

    def item(self, response: InferenceResponse) -> None:
        self._items += 1

    def end(self, error: BaseException | None) -> None:
        self._function(error, self._items)


class LastParameters(Watcher):
    """Keeps the parameters of the first and the last response of a stream, and counts all responses."""

    __slots__ = ("first", "items", "parameters")

    def __init__(self, first: Parameters | None) -> None:
        self.first = first
        self.parameters: Parameters | None = None
        self.items = 0

    def item(self, response: InferenceResponse) -> None:
        self.parameters = response.parameters
        self.items += 1

    @property
    def usage(self) -> ToldUsage:
        """Tokens of the call and the reason of its end, as far as the responses tell them."""
        return usage_of(self.parameters, self.first)


ChangeResponse = Callable[[InferenceResponse], Awaitable[InferenceResponse]]

ItemSeen = Callable[[InferenceResponse], None]

_closing = Tasks()
"""Run the `finally` of models whose reader takes no step."""


class Responses(Protocol):
    """The responses after the first: an async generator, or another object with `aclose`.

    Other items are for a `Direct`, which makes responses of them.
    """

    async def __anext__(self) -> Any: ...

    async def aclose(self) -> None: ...


class Direct(NamedTuple):
    """How a reply reads its model's own iterator itself. A coroutine of its own in between costs 0.5 µs an item."""

    next: Callable[[], Awaitable[Any]]
    """Awaits the next item."""
    finish: Callable[[Any], InferenceResponse]
    """Makes the response of an item. It may raise."""
    failure: Callable[[BaseException], tuple[BaseException, BaseException | None]]
    """The error to raise for one of the model, and its cause."""


class Reply:
    """A reply with one response, which has already ended.

    A handler returns it with the first response; iteration gives all responses. A reply that is not `single` is a
    `StreamReply`, which needs `async with reply`. `async with` also works for this one.
    """

    __slots__ = ("first",)

    single = True
    """Whether this is a complete reply and not the start of a stream."""

    def __init__(self, first: InferenceResponse | None) -> None:
        self.first = first

    @property
    def parameters(self) -> Parameters | None:
        """Those of the first response, until it is read."""
        return None if self.first is None else self.first.parameters

    @property
    def usage(self) -> ToldUsage:
        """Tokens of the call and the reason of its end, as far as the first response tells them."""
        return usage_of(self.parameters)

    def watch(self, watcher: Watcher) -> Self:
        """Show `watcher` every response and the end. A single reply has already ended.

        Watchers see a response in the order in which they were added, and the end in reverse order.
        """
        if watcher.sees_items and self.first is not None:
            watcher.item(self.first)
        watcher.end(None)
        return self

    def for_each(self, take: Callable[[InferenceResponse], Awaitable[None] | None]) -> Awaitable[None]:
        """Call `take` with each response, and let other tasks run in between.

        What `take` returns is awaited before the next response, for example `aclose(None)` for a client that wants no
        further one.
        """
        return give(self, take)

    async def map(self, function: "ChangeResponse") -> "Reply":
        """The reply with `await function(response)` for each response. Watchers get the responses as they were.

        Raises the error of `function`; a stream raises it when it is read.
        """
        assert self.first is not None
        return Reply(await function(self.first))

    def end(self, reason: Exception) -> None:
        """End the reply: the reader gets `reason` at its pending or next step, and the model's `finally` runs."""

    def pace(self, interval: float) -> None:
        """Give the reader at most one response in `interval` seconds."""

    def tell(self, told: Callable[[BaseException], BaseException]) -> None:
        """Give the reader `told(error)` in place of an error of the model. Watchers get the error itself."""

    def leave(self) -> None:
        """Count the reply as a success however it ends, because its reader has all that it wants and leaves."""

    async def aclose(self, error: BaseException | None) -> None:
        """Run the model's `finally` now, and end the watchers with `error`."""

    def __aiter__(self) -> AsyncIterator[InferenceResponse]:
        return _only(self.first)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        pass


def _both(one: ItemSeen, other: ItemSeen) -> ItemSeen:
    def item(response: InferenceResponse) -> None:
        one(response)
        other(response)

    return item


async def _only(response: InferenceResponse | None) -> AsyncIterator[InferenceResponse]:
    assert response is not None
    yield response


class StreamReply(Reply):
    """The start of a stream and the rest of it; `first` is None without any response, and after it has been read.

    The end of its `async with` closes the model's generator, which runs its `finally`, and then ends each watcher once.
    """

    __slots__ = (
        "_closed",
        "_direct",
        "_finish",
        "_first_read",
        "_item",
        "_left",
        "_next",
        "_reader",
        "_rest",
        "_scope",
        "_told",
        "_waiting",
        "_watchers",
    )

    single = False

    def __init__(
        self, first: InferenceResponse | None, rest: Responses, direct: Direct | None = None
    ) -> None:
        super().__init__(first)
        self._rest = rest
        self._direct = direct
        self._finish: Callable[[Any], InferenceResponse] | None = None
        self._next: Callable[[], Awaitable[Any]] = rest.__anext__
        if direct is not None:
            self._next = direct.next
            self._finish = direct.finish
        self._told: Callable[[BaseException], BaseException] | None = None
        self._first_read = first is None
        self._watchers: list[Watcher] = []
        self._item: ItemSeen | None = None
        """Calls all watchers that override `item`; None without any, because that test is cheapest."""
        self._reader: asyncio.Task[object] | None = None
        self._scope: Scope | None = None
        """The reader's pending step, once it was ended: a scope for every stream would cost it 0.2 µs."""
        self._waiting = False
        self._closed = self._left = False

    def watch(self, watcher: Watcher) -> Self:
        if self._closed:
            return super().watch(watcher)
        if watcher.sees_items:
            if self.first is not None:
                watcher.item(self.first)
            self._item = watcher.item if self._item is None else _both(self._item, watcher.item)
        self._watchers.append(watcher)
        return self

    def end(self, reason: Exception) -> None:
        if self._scope is None and not self._closed:
            self._scope = Scope(self._reader if self._waiting else None)
            self._scope.end(reason)
            if not self._waiting:
                _closing.start(self._close_unread(reason))

    async def _close_unread(self, reason: Exception) -> None:
        if not self._waiting:  # the reader is slow or gone, and takes no further step for now
            await self.aclose(reason)

    async def map(self, function: ChangeResponse) -> Reply:
        return MappedStream(self, function)  # an object of its own, so that other streams need no test

    def pace(self, interval: float) -> None:
        self._next = paced(self._next, interval)

    def tell(self, told: Callable[[BaseException], BaseException]) -> None:
        self._told = told

    def leave(self) -> None:
        self._left = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> InferenceResponse:
        if not self._first_read:
            self._first_read = True
            first, self.first = self.first, None  # a stream may be long, and its first response large
            assert first is not None
            return first
        if self._scope is not None:
            await self._end_by(self._scope)
        if self._closed:
            raise StopAsyncIteration
        reader = self._reader
        assert reader is not None, "a reply is read inside `async with`"
        self._waiting = True
        try:
            response: InferenceResponse = await self._next()
            if self._finish is not None:
                response = self._finish(response)
        except StopAsyncIteration:
            if self._scope is not None or reader.cancelling():
                del reader  # as below
                await self._end_despite_model()
            del reader
            await self.aclose(None)
            raise
        except BaseException as raised:  # a cancel ends the stream too
            error, cause = (raised, None) if self._direct is None else self._direct.failure(raised)
            try:
                if self._scope is not None and self._scope.over(error):
                    await self._end_by(self._scope)
                await self.aclose(error)
                if error is raised and self._told is None:
                    raise
                if error is not raised:
                    error.__cause__ = cause
                raise (error if self._told is None else self._told(error)) from error.__cause__
            finally:
                # Their tracebacks refer to this frame, and a cancelled task to its error: both would be cycles.
                del error, cause, reader
        finally:
            self._waiting = False
        if self._scope is not None or reader.cancelling():
            del reader
            await self._end_despite_model()
        if self._item is not None:
            self._item(response)
        return response

    async def _end_by(self, scope: Scope) -> NoReturn:
        """Close the model, and raise the reason for which the reply was ended, once."""
        await self.aclose(scope.reason)
        self._scope = None
        raise scope.taken() from None

    async def _end_despite_model(self) -> NoReturn:
        """The model swallowed a cancel and went on, or ended its stream. The cancel still counts."""
        if self._scope is not None and self._scope.over(swallowed()):
            await self._end_by(self._scope)
        await self.aclose(swallowed())
        raise swallowed()

    async def aclose(self, error: BaseException | None) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await self._rest.aclose()
        finally:
            self._reader = None
            if self._left:
                error = None
            for watcher in reversed(self._watchers):
                watcher.end(error)

    async def __aenter__(self) -> Self:
        # Once per stream, because a lookup of the current task costs as much as a small response.
        self._reader = asyncio.current_task()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not self._closed:
            await self.aclose(error or Abandoned())


class MappedStream(Reply):
    """A stream whose reader gets `function(response)`. All else is that of the stream, which may be mapped itself."""

    __slots__ = ("_function", "_stream")

    single = False

    def __init__(self, stream: "StreamReply | MappedStream", function: ChangeResponse) -> None:
        self._stream = stream
        self._function = function

    @property
    def first(self) -> InferenceResponse | None:  # type: ignore[override]  # a slot of the base
        return self._stream.first

    def watch(self, watcher: Watcher) -> Self:
        self._stream.watch(watcher)
        return self

    async def map(self, function: ChangeResponse) -> Reply:
        return MappedStream(self, function)

    def end(self, reason: Exception) -> None:
        self._stream.end(reason)

    def pace(self, interval: float) -> None:
        self._stream.pace(interval)

    def tell(self, told: Callable[[BaseException], BaseException]) -> None:
        self._stream.tell(told)

    def leave(self) -> None:
        self._stream.leave()

    async def aclose(self, error: BaseException | None) -> None:
        await self._stream.aclose(error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> InferenceResponse:
        return await self._function(await self._stream.__anext__())

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self._stream.__aexit__(kind, error, traceback)


def paced(following: Callable[[], Awaitable[Any]], interval: float) -> Callable[[], Awaitable[Any]]:
    """`following` at a rate of one item in `interval` seconds."""
    loop = asyncio.get_running_loop()
    due = loop.time() + interval

    async def next_item() -> Any:
        nonlocal due
        if (early := due - loop.time()) > 0:
            await asyncio.sleep(early)
        item = await following()
        due = max(due + interval, loop.time())  # a late item may be followed sooner, so that the rate is kept
        return item

    return next_item
