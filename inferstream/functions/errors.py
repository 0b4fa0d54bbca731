"""Errors of functions: those that clients are told about, and where a function is that cannot be a model."""

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ..errors import InferstreamError, InvalidSettings, ModelError
from .http_errors import from_http_exception, single_error

Method = Callable[..., Any]

Check = Callable[[Any, Any, Any], Any]
"""Returns what a method of a model returned for an argument, or raises an error for it."""


class ErrorMap:
    """Translations by class of exception; the nearest base class counts."""

    def __init__(self) -> None:
        self._functions: dict[type[Exception], Callable[[Any], Exception]] = {}

    def __bool__(self) -> bool:
        return bool(self._functions)

    def add(self, exception: type[Exception], status: int, message: str | None) -> None:
        """Raises TypeError and ValueError for what is no exception and no HTTP status of an error."""
        if not (isinstance(exception, type) and issubclass(exception, Exception)):
            raise TypeError(f"{exception!r} is no class of exceptions")
        if not 400 <= status <= 599:
            raise ValueError(f"{status} is no HTTP status of an error: 400 to 599")

        def make(error: Exception) -> Exception:
            return ModelError(message or str(error) or exception.__name__, status)

        self.add_function(exception, make)

    def add_function(self, exception: type[Exception], function: Callable[[Any], Exception]) -> None:
        """Translate an exception by a function, which returns the error that the client gets."""
        self._functions[exception] = function

    def translated(self, error: Exception) -> Exception:
        """The error to raise in place of `error`: the mapped one, that of an `HTTPException`, or the same.

        An exception group with exactly one exception counts as this exception.
        """
        single = single_error(error)
        if isinstance(single, InferstreamError):
            return single
        for kind in type(single).__mro__:
            if kind in self._functions:
                return self._functions[kind](single)
        return from_http_exception(single) or error

    def fail(self, error: Exception) -> NoReturn:
        """Raise the error that clients get in place of `error`; the same if it is not mapped."""
        mapped = self.translated(error)
        if mapped is error:
            raise error
        raise mapped from error

    def guarded(self, method: Method, is_async: bool, check: Check | None) -> Method:
        """A method of a model with one argument, with a check of its result and these errors for its exceptions."""
        if not self and check is None:
            return method

        async def awaited(model: Any, argument: Any) -> Any:
            try:
                returned = await method(model, argument)
                return returned if check is None else check(model, argument, returned)
            except Exception as error:
                self.fail(error)

        def called(model: Any, argument: Any) -> Any:
            try:
                returned = method(model, argument)
                return returned if check is None else check(model, argument, returned)
            except Exception as error:
                self.fail(error)

        return awaited if is_async else called


def location_of(function: Callable[..., Any]) -> str:
    """File, line and name of a function, for error messages, which may reach clients: without a path."""
    function = unbound(function)
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    if code is None:
        return f"function {name}"
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}, function {name}"


def unbound(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a partial, or the function itself."""
    return unbound(function.func) if isinstance(function, partial) else function


def no_function(thing: Any) -> InvalidSettings:
    """The error for what is marked as a function and is none."""
    what = f"class {thing.__module__}.{thing.__qualname__}" if isinstance(thing, type) else repr(thing)
    return InvalidSettings(f"{what} is no function")
