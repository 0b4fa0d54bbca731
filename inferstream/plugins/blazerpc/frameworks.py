"""Adapts functions of framework tensors to functions of arrays."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

Convert = Callable[[Any], Any]


def convert_arguments(
    function: Callable[..., Any] | None, inward: Convert, outward: Convert
) -> Callable[..., Any]:
    """Wrap a function: `inward` converts its arguments, and `outward` its result or stream items.

    Without a function, returns a decorator.
    """
    if function is None:
        return lambda function: convert_arguments(function, inward, outward)

    def begin(arguments: Any, named: dict[str, Any]) -> Any:
        return function(*map(inward, arguments), **{name: inward(value) for name, value in named.items()})

    if inspect.isasyncgenfunction(function):

        async def items(*arguments: Any, **named: Any) -> AsyncIterator[Any]:
            async for item in begin(arguments, named):
                yield outward(item)

        return functools.wraps(function)(items)
    if inspect.isgeneratorfunction(function):

        def blocking(*arguments: Any, **named: Any) -> Iterator[Any]:
            for item in begin(arguments, named):
                yield outward(item)

        return functools.wraps(function)(blocking)
    if inspect.iscoroutinefunction(function):

        async def call_async(*arguments: Any, **named: Any) -> Any:
            return outward(await begin(arguments, named))

        return functools.wraps(function)(call_async)

    def call(*arguments: Any, **named: Any) -> Any:
        return outward(begin(arguments, named))

    return functools.wraps(function)(call)
