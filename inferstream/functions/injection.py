"""Arguments that no client gives: the context of a request, its headers, the app's state, dependencies."""

import asyncio
import inspect
import typing
from collections.abc import Callable, Mapping
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any

from ..context import RequestContext, request_context
from ..types import Headers, InferenceRequest


class State(SimpleNamespace):
    """Whatever the functions of an app share: `app.state.db = connect()`."""


class Depends:
    """A default, or a part of `Annotated`, that fills an argument with the result of a function.

    The function may be `def` or `async def`. Its own parameters are a `RequestContext`, `Headers`, `State`, or further
    dependencies. It runs once per call of a model, however many arguments need it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __repr__(self) -> str:
        return f"Depends({getattr(self.function, '__qualname__', self.function)})"


Source = Callable[[InferenceRequest, dict[Any, Any]], Any]
"""Gives the value of an argument; the dictionary holds what this call has made so far."""


class Injection:
    """The arguments of one function that no client gives. Raises TypeError for a dependency that cannot be called."""

    def __init__(self, state: State | None = None) -> None:
        self._state = State() if state is None else state
        self._sources: dict[str, Source] = {}
        self.awaits = False
        """Whether a dependency is a coroutine."""

    def __bool__(self) -> bool:
        return bool(self._sources)

    def add(self, name: str, hint: Any, default: Any) -> bool:
        """Fill the parameter `name` of a function, if its annotation or default says so."""
        source = self._source(hint, default)
        if source is not None:
            self._sources[name] = source
        return source is not None

    def fill(self, request: InferenceRequest) -> dict[str, Any]:
        """The arguments for a request. Values of coroutines are coroutines."""
        made: dict[Any, Any] = {}
        return {name: source(request, made) for name, source in self._sources.items()}

    async def filled(self, request: InferenceRequest) -> dict[str, Any]:
        """The same, with all coroutines awaited."""
        arguments = self.fill(request)
        for name, value in arguments.items():
            if inspect.isawaitable(value):
                arguments[name] = await value
        return arguments

    def _source(self, hint: Any, default: Any) -> Source | None:
        depends = default if isinstance(default, Depends) else _in_annotated(hint)
        if depends is not None:
            return self._dependency(depends.function, ())
        if hint is RequestContext:
            return lambda request, made: context_of(request)
        if hint is Headers or hint == Mapping[str, str]:
            return lambda request, made: headers_of(request)
        if hint is State:
            return lambda request, made: self._state
        return None

    def _dependency(self, function: Any, above: tuple[Any, ...]) -> Source:
        if not callable(function):
            raise TypeError(f"Depends({function!r}) is no function")
        if function in above:
            raise TypeError(f"Depends({function.__qualname__}) depends on itself")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{Depends(function)!r} yields; use the app's on_load and on_unload for what must be closed"
            )
        hints = typing.get_type_hints(function, include_extras=True)
        sources: dict[str, Source] = {}
        for parameter in inspect.signature(function).parameters.values():
            hint, default = hints.get(parameter.name), parameter.default
            depends = default if isinstance(default, Depends) else _in_annotated(hint)
            if depends is not None:
                sources[parameter.name] = self._dependency(depends.function, (*above, function))
            elif (source := self._source(hint, default)) is not None:
                sources[parameter.name] = source
            elif hint is None and default is parameter.empty:
                sources[parameter.name] = lambda request, made: context_of(request)
            elif default is parameter.empty:
                raise TypeError(
                    f'{Depends(function)!r}: nothing fills its parameter "{parameter.name}"; '
                    "a dependency takes RequestContext, Headers, State or Depends"
                )
        awaits = inspect.iscoroutinefunction(function)
        self.awaits = self.awaits or awaits
        return _once(function, sources, awaits)


def _once(function: Callable[..., Any], sources: dict[str, Source], awaits: bool) -> Source:
    def once(request: InferenceRequest, made: dict[Any, Any]) -> Any:
        if function not in made:
            arguments = {name: source(request, made) for name, source in sources.items()}
            if awaits or any(map(inspect.isawaitable, arguments.values())):
                made[function] = asyncio.ensure_future(_awaited(function, arguments))
            else:
                made[function] = function(**arguments)
        return made[function]

    return once


async def _awaited(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    for name, value in arguments.items():
        if inspect.isawaitable(value):
            arguments[name] = await value
    result = function(**arguments)
    return await result if inspect.isawaitable(result) else result


def context_of(request: InferenceRequest) -> RequestContext:
    """The context of the request that is running, with its headers."""
    context = request_context()
    context.headers = headers_of(request)
    return context


def headers_of(request: InferenceRequest) -> Mapping[str, str]:
    """The headers of a request, or the metadata of its RPC."""
    parameters = request.parameters
    headers = None if parameters is None else parameters.headers
    return Headers(()) if headers is None else headers


def _in_annotated(hint: Any) -> Depends | None:
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    return next((part for part in typing.get_args(hint)[1:] if isinstance(part, Depends)), None)


async def in_thread(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call a blocking function in a thread, in this context."""
    return await asyncio.to_thread(copy_context().run, lambda: function(**arguments))
