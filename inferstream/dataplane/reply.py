"""The reply to a call: the first response and, for a stream, the rest."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, NoReturn, Protocol, Self

from ..concurrency.outgoing import for_each
from ..concurrency.scope import Scope, swallowed_cancellation
from ..concurrency.tasks import Tasks
from ..errors import Abandoned
from ..tokens import ToldUsage, read_usage
from ..types import InferenceResponse, Parameters


class Watcher:
    """Observes the responses of a reply and its end. Subclasses override the methods they need.

    Neither method may block, and `end` must not raise. If `item` raises, the reader receives the error
    instead of the response. `item` may call `Call.end` to stop the reply.
    """

    __slots__ = ()

    sees_items = False
    """Whether the class overrides `item`. If not, replies skip the call."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.sees_items = cls.item is not Watcher.item

    def item(self, response: InferenceResponse) -> None:
        """Called with each response before the reader receives it.

        The first response is passed when the watcher is added. A watcher that is added after the first read
        misses it.
        """

    def end(self, error: BaseException | None) -> None:
        """Called exactly once when the reply ends.

        `error` is None after the last response, `Abandoned` if the reader left early, or the error that ended
        the reply.
        """


class AtEnd(Watcher):
    """Calls `function` at the end of a reply, with the error or None."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[BaseException | None], object]) -> None:
        self._function = function

    def end(self, error: BaseException | None) -> None:
        self._function(error)


class CountedEnd(Watcher):
    """Calls `function` at the end of a reply, with the error or None and the number of responses."""

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
        """Token counts and the finish reason, if the responses include them."""
        return read_usage(self.parameters, self.first)


ChangeResponse = Callable[[InferenceResponse], Awaitable[InferenceResponse]]

ItemSeen = Callable[[InferenceResponse], None]

_closing = Tasks()
"""Tasks that close models whose reader is not waiting for a response."""


class Responses(Protocol):
    """The responses of a stream after the first: an async generator, or another object with `aclose`.

    The items may be any objects if a `Direct` converts them to responses.
    """

    async def __anext__(self) -> Any: ...

    async def aclose(self) -> None: ...


class Direct(NamedTuple):
    """Lets a reply read the model's own iterator directly.

    An additional coroutine in between costs 0.5 µs per item.
    """

    next: Callable[[], Awaitable[Any]]
    """Awaits the next item."""
    finish: Callable[[Any], InferenceResponse]
    """Converts an item to a response. May raise."""
    failure: Callable[[BaseException], tuple[BaseException, BaseException | None]]
    """Maps an error of the model to the error to raise and its cause."""


class Reply:
    """A reply with a single response, which is already complete.

    Handlers return a reply once the first response exists. Iteration yields all responses, including the
    first. If `single` is False, the reply is a stream and must be read inside `async with`, which also works
    for single replies.
    """

    __slots__ = ("first",)

    single = True
    """Whether the reply is complete, as opposed to the start of a stream."""

    def __init__(self, first: InferenceResponse | None) -> None:
        self.first = first

    @staticmethod
    def stream(first: InferenceResponse, rest: "Responses") -> "Reply":
        """Return a stream of `first` and the responses of `rest`. Stages use it to replace an inner stream."""
        return StreamReply(first, rest)

    @property
    def parameters(self) -> Parameters | None:
        """The parameters of the first response, or None once it has been read."""
        return None if self.first is None else self.first.parameters

    @property
    def usage(self) -> ToldUsage:
        """Token counts and the finish reason, if the first response includes them."""
        return read_usage(self.parameters)

    def watch(self, watcher: Watcher) -> Self:
        """Add a watcher, which is called with every response and at the end.

        Watchers are called with each response in the order in which they were added, and at the end in
        reverse order. A single reply has already ended, so the watcher's methods are called immediately.
        """
        if watcher.sees_items and self.first is not None:
            watcher.item(self.first)
        watcher.end(None)
        return self

    def for_each(self, take: Callable[[InferenceResponse], Awaitable[None] | None]) -> Awaitable[None]:
        """Call `take` with each response, and yield to the event loop regularly.

        If `take` returns an awaitable, it is awaited before the next response. For example, `take` can return
        `aclose(None)` when the client needs no more responses.
        """
        return for_each(self, take)

    async def map(self, function: "ChangeResponse") -> "Reply":
        """Return a reply that applies `await function(response)` to each response.

        Watchers still receive the original responses. If `function` fails for the first response, the reply
        is closed and the error is raised. For later responses, the stream raises the error when it is read.
        """
        assert self.first is not None
        return Reply(await function(self.first))

    def end(self, reason: Exception) -> None:
        """End the reply early. The reader's pending or next read raises `reason`, and the model is closed."""

    def pace(self, interval: float) -> None:
        """Yield at most one response per `interval` seconds."""

    def tell(self, told: Callable[[BaseException], BaseException]) -> None:
        """Convert the model's errors with `told` for the reader. Watchers receive the original errors."""

    def leave(self) -> None:
        """Count the reply as a success however it ends, because the reader needs no more responses."""

    async def aclose(self, error: BaseException | None) -> None:
        """Close the model's stream, running its `finally` blocks, and call `end(error)` of all watchers."""

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
    """A stream: the first response and the rest. `first` is None once read, or if the stream is empty.

    Leaving `async with` closes the model's generator, which runs its `finally` blocks, and then calls `end`
    of each watcher once.
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
        """Calls all watchers that override `item`. None if no watcher does."""
        self._reader: asyncio.Task[object] | None = None
        self._scope: Scope | None = None
        """The scope of the reader's pending read. Created by `end`: a scope per stream would cost 0.2 µs."""
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
        if not self._waiting:  # The reader is slow or gone, and is not waiting for a response.
            await self.aclose(reason)

    async def map(self, function: ChangeResponse) -> Reply:
        return await _map_stream(self, function)  # A separate class, so that other streams need no check.

    def pace(self, interval: float) -> None:
        self._next = pace(self._next, interval)

    def tell(self, told: Callable[[BaseException], BaseException]) -> None:
        self._told = told

    def leave(self) -> None:
        self._left = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> InferenceResponse:
        if not self._first_read:
            self._first_read = True
            # Release the first response, because it may be large and the stream long.
            first, self.first = self.first, None
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
                del reader  # See the `finally` below.
                await self._end_despite_model()
            del reader
            await self.aclose(None)
            raise
        except BaseException as raised:  # Including cancellation.
            error, cause = (raised, None) if self._direct is None else self._direct.failure(raised)
            try:
                if self._scope is not None and self._scope.over(error):
                    await self._end_by(self._scope)
                if error is not raised:
                    error.__cause__ = cause  # which watchers read
                await self.aclose(error)
                if error is raised and self._told is None:
                    raise
                raise (error if self._told is None else self._told(error)) from error.__cause__
            finally:
                # The tracebacks refer to this frame, and a cancelled task refers to its error. Both would be
                # reference cycles.
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
        """Close the model, and raise the reason that was passed to `end`."""
        await self.aclose(scope.reason)
        self._scope = None
        raise scope.take_reason() from None

    async def _end_despite_model(self) -> NoReturn:
        """Raise the cancellation that the model swallowed by yielding another item or ending its stream."""
        if self._scope is not None and self._scope.over(swallowed_cancellation()):
            await self._end_by(self._scope)
        await self.aclose(swallowed_cancellation())
        raise swallowed_cancellation()

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
        # Once per stream, because looking up the current task takes as long as a small response.
        self._reader = asyncio.current_task()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not self._closed:
            await self.aclose(error or Abandoned())


class MappedStream(Reply):
    """A stream that applies `function` to each response, and otherwise delegates to the original stream."""

    __slots__ = ("_function", "_stream")

    single = False

    def __init__(
        self,
        stream: "StreamReply | MappedStream",
        function: ChangeResponse,
        first: InferenceResponse | None,
    ) -> None:
        super().__init__(first)
        self._stream = stream
        self._function = function

    def watch(self, watcher: Watcher) -> Self:
        self._stream.watch(watcher)
        return self

    async def map(self, function: ChangeResponse) -> Reply:
        return await _map_stream(self, function)

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
        response = await self._stream.__anext__()
        first, self.first = self.first, None
        return await self._function(response) if first is None else first

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self._stream.__aexit__(kind, error, traceback)


async def _map_stream(stream: "StreamReply | MappedStream", function: ChangeResponse) -> MappedStream:
    """Map the first response now, because its headers are sent before the stream is read."""
    first = stream.first
    if first is not None:
        try:
            first = await function(first)
        except BaseException as error:  # Including cancellation.
            await stream.aclose(error)
            raise
    return MappedStream(stream, function, first)


def pace(following: Callable[[], Awaitable[Any]], interval: float) -> Callable[[], Awaitable[Any]]:
    """Limit an iterator's `__anext__` to one item per `interval` seconds."""
    loop = asyncio.get_running_loop()
    due = loop.time() + interval

    async def next_item() -> Any:
        nonlocal due
        if (early := due - loop.time()) > 0:
            await asyncio.sleep(early)
        item = await following()
        # A late item shortens the next interval, which keeps the average rate.
        due = max(due + interval, loop.time())
        return item

    return next_item
