"""Iterators around the streams of functions: values of later requests, one item, translated errors."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from .arguments import Arguments

Translate = Callable[[Exception], Exception]


class LaterValues:
    """The values of a stream from the client. For `async for`, and `for` in a thread."""

    def __init__(self, arguments: Arguments, payloads: Any, given: dict[str, Any]) -> None:
        """Takes the value of the first request, if it has one, out of `given`."""
        assert arguments.stream is not None
        self._arguments = arguments
        self._payloads = payloads
        self._first = [given.pop(arguments.stream.name)] if arguments.stream.name in given else []

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._first:
            return self._first.pop()
        return self._arguments.later(await self._payloads.__anext__())

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._first:
            return self._first.pop()
        return self._arguments.later(next(self._payloads))


class OnlyItem:
    """A stream of one item: what a coroutine returns that reads a stream and makes none."""

    def __init__(self, start: Callable[..., Any], *arguments: Any) -> None:
        self._start: Callable[..., Any] | None = start
        self._arguments = arguments

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._start is None:
            raise StopAsyncIteration
        start, self._start = self._start, None
        return await start(*self._arguments)


def only(start: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
    """The same for a blocking function."""
    yield start(*arguments)


def mapped(items: Iterator[Any], translate: Translate) -> Iterator[Any]:
    """Items of a blocking generator, whose exceptions are translated. Closing it closes the generator."""
    try:
        yield from items
    except Exception as error:
        raise translate(error) from error


async def mapped_async(items: Any, translate: Translate) -> AsyncIterator[Any]:
    """Items of an async iterator, or of an awaitable of one. Exceptions are translated, closing closes it."""
    try:
        if inspect.isawaitable(items):
            items = await items
        async for item in items:
            yield item
    except Exception as error:
        raise translate(error) from error
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()
