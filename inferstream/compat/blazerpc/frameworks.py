"""Functions of a framework's tensors as functions of arrays."""

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

Convert = Callable[[Any], Any]


def converting(function: Callable[..., Any] | None, inward: Convert, outward: Convert) -> Callable[..., Any]:
    """`function`, whose arguments go through `inward`, and its results, or items of its stream, through `outward`.

    Without a function, what makes one so.
    """
    if function is None:
        return lambda function: converting(function, inward, outward)

    def begun(arguments: Any, named: dict[str, Any]) -> Any:
        return function(*map(inward, arguments), **{name: inward(value) for name, value in named.items()})

    if inspect.isasyncgenfunction(function):

        async def items(*arguments: Any, **named: Any) -> AsyncIterator[Any]:
            async for item in begun(arguments, named):
                yield outward(item)

        return functools.wraps(function)(items)
    if inspect.isgeneratorfunction(function):

        def blocking(*arguments: Any, **named: Any) -> Iterator[Any]:
            for item in begun(arguments, named):
                yield outward(item)

        return functools.wraps(function)(blocking)
    if inspect.iscoroutinefunction(function):

        async def awaited(*arguments: Any, **named: Any) -> Any:
            return outward(await begun(arguments, named))

        return functools.wraps(function)(awaited)

    def called(*arguments: Any, **named: Any) -> Any:
        return outward(begun(arguments, named))

    return functools.wraps(function)(called)
