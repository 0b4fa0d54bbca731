"""Error handling of functions: exceptions mapped to client errors, and locations for error messages."""

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ..errors import HINT, InferstreamError, InvalidSettings, ModelError
from .http_errors import from_http_exception, single_error

Method = Callable[..., Any]

Check = Callable[[Any, Any, Any], Any]
"""A function that checks the result of a model method for an argument. It may convert the result."""


class ErrorMap:
    """Maps exception classes to client errors. The nearest base class applies."""

    def __init__(self) -> None:
        self._functions: dict[type[Exception], Callable[[Any], Exception]] = {}

    def __bool__(self) -> bool:
        return bool(self._functions)

    def add(self, exception: type[Exception], status: int, message: str | None) -> None:
        """Map an exception to a status.

        Raises TypeError unless it is an exception class, or ValueError unless the status is an HTTP error.
        """
        if not (isinstance(exception, type) and issubclass(exception, Exception)):
            raise TypeError(f"{exception!r} is no class of exceptions")
        if not 400 <= status <= 599:
            raise ValueError(f"{status} is no HTTP status of an error: 400 to 599")

        def make(error: Exception) -> Exception:
            return ModelError(message or str(error) or exception.__name__, status)

        self.add_function(exception, make)

    def add_function(self, exception: type[Exception], function: Callable[[Any], Exception]) -> None:
        """Map an exception with a function that returns the error for the client."""
        self._functions[exception] = function

    def translate(self, error: Exception) -> Exception:
        """Return the error to raise: mapped, converted from an `HTTPException`, or `error` unchanged.

        An exception group with exactly one exception is treated as that exception.
        """
        single = single_error(error)
        if isinstance(single, InferstreamError):
            return single
        for kind in type(single).__mro__:
            if kind in self._functions:
                return self._functions[kind](single)
        return from_http_exception(single) or error

    def fail(self, error: Exception) -> NoReturn:
        """Raise the mapped error instead of `error`, or `error` itself if it is not mapped."""
        mapped = self.translate(error)
        if mapped is error:
            raise error
        raise mapped from error

    def guard(self, method: Method, is_async: bool, check: Check | None) -> Method:
        """Wrap a model method with one argument to check its result and map its exceptions."""
        if not self and check is None:
            return method

        async def call_async(model: Any, argument: Any) -> Any:
            try:
                returned = await method(model, argument)
                return returned if check is None else check(model, argument, returned)
            except Exception as error:
                self.fail(error)

        def call(model: Any, argument: Any) -> Any:
            try:
                returned = method(model, argument)
                return returned if check is None else check(model, argument, returned)
            except Exception as error:
                self.fail(error)

        return call_async if is_async else call


def source_location(function: Callable[..., Any]) -> str:
    """Return the file name, line and name of a function for error messages.

    The path is omitted, because clients may see the messages.
    """
    function = unwrap_partial(function)
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    if code is None:
        return f"function {name}"
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}, function {name}"


def unwrap_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a `partial` wraps, or the function itself."""
    return unwrap_partial(function.func) if isinstance(function, partial) else function


def not_a_function(thing: Any) -> InvalidSettings:
    """Return the error for an object that is marked as a function but is not one."""
    if not isinstance(thing, type):
        return InvalidSettings(f"{thing!r} is not a function{HINT}decorate a `def` or an `async def`")
    step = (
        f"decorate a function, or write `class {thing.__name__}(MLModel)` and serve its folder with "
        f'"implementation": "{thing.__module__}.{thing.__name__}" in a model-settings.json'
    )
    return InvalidSettings(f"{_place_of(thing)}class {thing.__qualname__} is not a function{HINT}{step}")


def _place_of(kind: type) -> str:
    """Return the file name and line of a class as the start of an error message, or "" if unknown."""
    try:
        file, line = inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return ""
    return f"{Path(file or '').name}, line {line}, "
