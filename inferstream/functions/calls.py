"""`predict` and `predict_stream` of function models: read arguments, call the function, check its result."""

import functools
import inspect
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from ..codecs.values.arrays import Array
from ..errors import InvalidOutput
from ..types import InferenceRequest
from .arguments import Arguments, Sizes
from .batches import BatchItems
from .errors import Method
from .event import Event
from .function import Function
from .results import Results

Begun = tuple[dict[str, Any], Sizes]
"""The arguments of a call, and the sizes of their named dimensions."""


class ReturnedSizes:
    """Checks that named dimensions have the same sizes in the results of a function as in its arguments."""

    def __init__(self, results: Results) -> None:
        values = results.values.values()
        self._dimensions = [value.dimensions if isinstance(value, Array) else None for value in values]
        self._several = results.several

    def __bool__(self) -> bool:
        """Whether any dimension has a name."""
        return any(isinstance(name, str) for sizes in self._dimensions for name in sizes or ())

    def check(self, model: str, sizes: Sizes, returned: Any) -> None:
        """Raise InvalidOutput if a size differs. The writer reports all other errors."""
        parts = returned if self._several and isinstance(returned, tuple | list) else (returned,)
        known = {name: size for name, (size, _) in sizes.items()}
        for dimensions, part in zip(self._dimensions, parts, strict=False):
            for size, name in zip(np.shape(part), dimensions or (), strict=False):
                if isinstance(name, str) and known.setdefault(name, size) != size:
                    raise InvalidOutput(
                        f'Model {model} returned {size} for dimension "{name}", which is {known[name]}.'
                    )


class LaterValues:
    """The values of a client stream, as an async iterator, or as an iterator in a thread."""

    def __init__(self, arguments: Arguments, payloads: Any, given: dict[str, Any], sizes: Sizes) -> None:
        """Remove the value of the first request, if it has one, from `given`."""
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
        return self._arguments.read_later(await self._payloads.__anext__(), self._sizes)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._first:
            return self._first.pop()
        return self._arguments.read_later(next(self._payloads), self._sizes)


class FunctionCalls:
    """Starts calls of one function, and checks the values that it returns or yields."""

    def __init__(self, function: Function) -> None:
        self._call = function.function
        self._awaits = function.awaits
        self._arguments = arguments = function.arguments
        self._rows = (
            BatchItems(function.name, arguments, function.results, function.errors)
            if function.batching.rows > 1
            else None
        )
        self._sizes = ReturnedSizes(function.results) or None
        self.check = self._rows if self._sizes is None else self._check_result
        """The check of the function's result. None if only its type is checked."""

    async def arguments(self, model: Any, payload: InferenceRequest) -> dict[str, Any]:
        """Return the arguments of a call.

        Large arguments are decoded in a thread, where blocking dependencies also run.
        """
        arguments = self._arguments
        read = arguments.read if self._awaits else arguments.given
        large = arguments.takes_long(payload)
        given: dict[str, Any] = await model.waiting.run(read, payload) if large else read(payload)
        return (
            given | await arguments.injection.fill_async(payload, model.waiting.run)
            if self._awaits
            else given
        )

    def begin(self, payloads: Any, payload: InferenceRequest) -> Begun:
        """Start a stream whose first request is `payload`."""
        return self._begin(payloads, payload, self._arguments.given(payload))

    async def begin_awaiting(self, model: Any, payloads: Any, payload: InferenceRequest) -> Begun:
        """Like `begin`, for a function whose arguments are awaited."""
        return self._begin(payloads, payload, await self.arguments(model, payload))

    async def open(self, model: Any, payloads: Any, payload: InferenceRequest) -> tuple[Begun, Any]:
        """Start a stream whose first request is `payload`, and call the function."""
        begun = await self.begin_awaiting(model, payloads, payload)
        items = self._call(**begun[0])
        return begun, await items if inspect.isawaitable(items) else items

    def _begin(self, payloads: Any, payload: InferenceRequest, given: dict[str, Any]) -> Begun:
        sizes = self._arguments.sizes(payload) if self._arguments.names_sizes else {}
        stream = self._arguments.stream
        if stream is not None:
            given[stream.name] = LaterValues(self._arguments, payloads, given, sizes)
        return given, sizes

    def _check_result(self, model: Any, payload: InferenceRequest, returned: Any) -> Any:
        if self._rows is not None:
            self._rows(model, payload, returned)
        if self._sizes is not None:
            self._sizes.check(model.name, self._arguments.sizes(payload), returned)
        return returned

    def check_item(self, model: Any, begun: Begun, item: Any) -> None:
        """Raise InvalidOutput if the size of a named dimension of an item differs from the call."""
        if type(item) is Event:
            item = item.value
        if self._sizes is not None and item is not None:
            self._sizes.check(model.name, begun[1], item)


def build_predict(function: Function) -> Method:
    """Return the `predict` method for a function with one response."""
    call, calls, arguments = function.function, FunctionCalls(function), function.arguments
    given = arguments.given

    def predict(model: Any, payload: InferenceRequest) -> Any:
        return call(**given(payload))

    async def predict_async(model: Any, payload: InferenceRequest) -> Any:
        values = await calls.arguments(model, payload)
        return await (call(**values) if function.is_async else model.waiting.run(call, **values))

    def predict_by_size(model: Any, payload: InferenceRequest) -> Any:
        return (predict_async if arguments.takes_long(payload) else predict)(model, payload)

    unawaited = predict_by_size if function.is_async and arguments.may_take_long else predict
    method = function.errors.guard(
        predict_async if function.awaits else unawaited,
        function.is_async or function.awaits,
        calls.check,
    )
    return functools.update_wrapper(method, call)


def build_predict_stream(function: Function) -> Method:
    """Return the `predict_stream` method for a function that yields, or that reads a stream."""
    call, calls, errors, arguments = (
        function.function,
        FunctionCalls(function),
        function.errors,
        function.arguments,
    )

    async def large(model: Any, payloads: Any, first: InferenceRequest) -> Any:
        return (await calls.open(model, payloads, first))[1]

    def start(model: Any, payloads: Any) -> Any:
        first = payloads.take()
        if not function.blocks and arguments.takes_long(first):
            return large(model, payloads, first)
        return call(**calls.begin(payloads, first)[0])

    blocking = _build_blocking_stream(function, calls)

    async def awaiting(model: Any, payloads: Any) -> Iterator[Any]:
        try:
            begun = await calls.begin_awaiting(model, payloads, payloads.take())
        except Exception as error:
            errors.fail(error)
        return blocking(model, payloads, begun)

    plain = function.streams and not (calls.check or errors or function.awaits)
    if plain and (function.yields or not function.blocks):
        return functools.update_wrapper(start, call)  # the server inspects `call`
    kind = (
        (awaiting if function.awaits else blocking)
        if function.blocks
        else _build_loop_stream(function, calls)
    )
    method = functools.update_wrapper(kind, call)
    del method.__wrapped__  # the server must inspect `method` instead of `call`
    return method


def _build_blocking_stream(function: Function, calls: FunctionCalls) -> Callable[..., Iterator[Any]]:
    """Return the `predict_stream` method for a blocking function."""
    call, errors = function.function, function.errors

    def stream(model: Any, payloads: Any, begun: Begun | None = None) -> Iterator[Any]:
        items = None
        try:
            begun = begun or calls.begin(payloads, payloads.take())
            items = call(**begun[0])
            items = items if function.streams else iter([items])
            for item in items:
                calls.check_item(model, begun, item)
                yield item
        except Exception as error:
            errors.fail(error)
        finally:
            if (close := getattr(items, "close", None)) is not None:
                close()

    return stream


def _build_loop_stream(function: Function, calls: FunctionCalls) -> Method:
    """Return the `predict_stream` method for a function that runs on the event loop."""
    errors = function.errors

    async def stream(model: Any, payloads: Any) -> AsyncIterator[Any]:
        items = None
        try:
            begun, items = await calls.open(model, payloads, payloads.take())
            async for item in items if function.streams else _only(items):
                calls.check_item(model, begun, item)
                try:
                    yield item
                except CancelledError as cancel:  # from a scope that is open at the function's own `yield`
                    with suppress(StopAsyncIteration):
                        yield await items.athrow(cancel)
                        continue
                    return
        except Exception as error:
            errors.fail(error)
        finally:
            if (close := getattr(items, "aclose", None)) is not None:
                await close()

    return stream


async def _only(item: Any) -> AsyncIterator[Any]:
    yield item
