"""Streams of functions: a `predict_stream` that calls one, and the values of later requests."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from .arguments import Arguments, Sizes
from .awaited import read
from .dimensions import returned_sizes
from .event import Event

if TYPE_CHECKING:
    from .function import Function

Given = tuple[dict[str, Any], Sizes]
"""The arguments of a call, and the sizes of their named dimensions."""

Method = Callable[..., Any]


class LaterValues:
    """The values of a stream from the client. For `async for`, and `for` in a thread."""

    def __init__(self, arguments: Arguments, payloads: Any, given: dict[str, Any], sizes: Sizes) -> None:
        """Takes the value of the first request, if it has one, out of `given`."""
        assert arguments.stream is not None
        self._arguments = arguments
        self._payloads = payloads
        self._sizes = sizes
        self._first = [given.pop(arguments.stream.name)] if arguments.stream.name in given else []

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._first:
            return self._first.pop()
        return self._arguments.later(await self._payloads.__anext__(), self._sizes)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._first:
            return self._first.pop()
        return self._arguments.later(next(self._payloads), self._sizes)


class _Calls:
    """Begins calls of one function, and follows what it returns or yields."""

    def __init__(self, function: "Function") -> None:
        self._function = function
        self._arguments = function.arguments
        self._check = returned_sizes(function)
        self._errors = None if function.app is None else function.app.errors

    @property
    def passes_on(self) -> bool:
        """Whether the items of the function need nothing more."""
        return self._check is None and not self._errors

    def begin(self, payloads: Any, first: Any = None) -> Given:
        payload = first or payloads.take()
        given = self._arguments.read(payload)
        if self._arguments.injection:
            given |= self._arguments.injection.fill(payload)
        return self._with_stream(payloads, payload, given)

    async def begin_awaiting(self, model: Any, payloads: Any, first: Any = None) -> Given:
        payload = first or payloads.take()
        given = await read(model, self._arguments, payload)
        if self._function.awaits:
            given |= await self._arguments.injection.filled(payload, model.waiting.run)
        elif self._arguments.injection:
            given |= self._arguments.injection.fill(payload)
        return self._with_stream(payloads, payload, given)

    def items(self, model: Any, begin: Callable[[], Given]) -> Iterator[Any]:
        """The items of a blocking function."""
        items = None
        try:
            begun = begin()
            items = self._function.function(**begun[0])
            if not self._function.streams:
                items = iter([items])
            for item in items:
                self.check(model, begun, item)
                yield item
        except Exception as error:
            self.fail(error)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    def check(self, model: Any, begun: Given, item: Any) -> None:
        """Raises InvalidOutput for an item whose named dimensions do not have the sizes of the call."""
        if type(item) is Event:
            item = item.value
        if self._check is not None and item is not None:
            self._check.check(model.name, begun[1], item)

    def fail(self, error: Exception) -> NoReturn:
        """Raise the error that the app's clients get in place of this one; the same if it is not mapped."""
        mapped = self._errors.translated(error) if self._errors else error
        if mapped is error:
            raise error
        raise mapped from error

    def _with_stream(self, payloads: Any, payload: Any, given: dict[str, Any]) -> Given:
        sizes = self._arguments.sizes(payload) if self._arguments.names_sizes else {}
        stream = self._arguments.stream
        if stream is not None:
            given[stream.name] = LaterValues(self._arguments, payloads, given, sizes)
        return given, sizes


def stream_method(function: "Function") -> Method:
    """The `predict_stream` of the class of a function."""
    call, calls = function.function, _Calls(function)

    def start(self: Any, payloads: Any) -> Any:
        first = payloads.take()
        if not function.blocks and function.arguments.takes_long(first):
            return large(self, payloads, first)
        return call(**calls.begin(payloads, first)[0])

    async def large(self: Any, payloads: Any, first: Any) -> Any:
        given, _ = await calls.begin_awaiting(self, payloads, first)
        items = call(**given)
        return await items if inspect.isawaitable(items) else items

    def blocking(self: Any, payloads: Any) -> Iterator[Any]:
        yield from calls.items(self, lambda: calls.begin(payloads))

    async def on_loop(self: Any, payloads: Any) -> AsyncIterator[Any]:
        items = None
        try:
            begun = await calls.begin_awaiting(self, payloads)
            items = call(**begun[0])
            if inspect.isawaitable(items):
                items = await items
            async for item in items if function.streams else _only(items):
                calls.check(self, begun, item)
                yield item
        except Exception as error:
            calls.fail(error)
        finally:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

    async def awaiting(self: Any, payloads: Any) -> Iterator[Any]:
        try:
            given = await calls.begin_awaiting(self, payloads)
        except Exception as error:
            calls.fail(error)
        return calls.items(self, lambda: given)

    passes_on = calls.passes_on and not function.awaits and function.streams
    if passes_on and (function.yields or not function.blocks):
        return functools.update_wrapper(start, call)  # the server sees the kind of generator that `call` is
    if function.blocks:
        return _named(awaiting if function.awaits else blocking, function)
    return _named(on_loop, function)


async def _only(item: Any) -> AsyncIterator[Any]:
    yield item


def _named(method: Method, function: "Function") -> Method:
    """Give a method the name and the docstring of the function, and its own kind: the server must see that."""
    functools.update_wrapper(method, function.function)
    del method.__wrapped__  # type: ignore[attr-defined]
    return method
