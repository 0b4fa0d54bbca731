"""Arguments that no client gives: the context of a request, its headers, the app's state, dependencies."""

import inspect
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from ..context import RequestContext, request_context
from ..types import Headers, InferenceRequest


class State(SimpleNamespace):
    """Whatever the functions of an app share: `app.state.db = connect()`."""


class Depends:
    """A default, or a part of `Annotated`, that fills an argument with the result of a function.

    The function may be `def` or `async def`. A `def` of an `async def` function runs in a thread. Its own parameters
    are a `RequestContext`, `Headers`, `State`, or further dependencies. It runs once per call of a model, however many
    arguments need it. Without a function, the class in the annotation is called.
    """

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self.function = function

    def __repr__(self) -> str:
        return f"Depends({getattr(self.function, '__qualname__', self.function)})"


def depends(function: Callable[..., Any] | None = None) -> Any:
    """What type checkers take for `inferstream.Depends`, so that it may be the default of an argument of any type."""
    return Depends(function)


Overrides = Mapping[Callable[..., Any], Callable[..., Any]]
"""Functions by the dependency that they replace."""

Made = dict[Any, Any]
"""The results of the dependencies of one call, by function."""

Source = Callable[[InferenceRequest, Made], Any]
"""Gives the value of an argument."""

replacements_var: ContextVar["Replacements | None"] = ContextVar("replacements", default=None)
"""Replacements for the dependencies of the functions that become models in this context."""

InThread = Callable[..., Awaitable[Any]]
"""Calls a function with the arguments behind it, in a thread."""


class Dependency(typing.NamedTuple):
    """A function that fills arguments, with the sources of its own."""

    function: Callable[..., Any]
    sources: dict[str, Source]
    is_async: bool

    def arguments(self, request: InferenceRequest, made: Made) -> dict[str, Any]:
        return {name: source(request, made) for name, source in self.sources.items()}


class Replacements(dict[Any, Any]):
    """Overrides in use. `known` are the dependencies of all functions so far."""

    def __init__(self, overrides: Overrides) -> None:
        super().__init__(overrides)
        self.known: set[Any] = set()

    def unknown(self) -> list[str]:
        """The names of those that replace no dependency."""
        return [getattr(each, "__qualname__", repr(each)) for each in self if each not in self.known]


@contextmanager
def replacing(replacements: Replacements) -> Iterator[None]:
    """Replace dependencies of the functions that become models in the block."""
    token = replacements_var.set(replacements)
    try:
        yield
    finally:
        replacements_var.reset(token)


class Injection:
    """The arguments of one function that no client gives. Raises TypeError for a dependency that cannot be called."""

    def __init__(self, state: State | None = None, replacements: Mapping[Any, Any] | None = None) -> None:
        self._state = State() if state is None else state
        self._replacements = replacements or {}
        self._added: dict[str, tuple[Any, Any]] = {}
        self._sources: dict[str, Source] = {}
        self.dependencies: dict[Callable[..., Any], Dependency] = {}
        """In an order in which each follows those that it needs."""
        self.shares = False
        """Whether an argument may be an object that other calls have too."""

    def __bool__(self) -> bool:
        return bool(self._sources)

    @property
    def coroutines(self) -> list[Callable[..., Any]]:
        """The dependencies that are `async def`."""
        return [each.function for each in self.dependencies.values() if each.is_async]

    def add(self, name: str, hint: Any, default: Any) -> bool:
        """Fill the parameter `name` of a function, if its annotation or default says so."""
        source = self._source(hint, default, ())
        if source is not None:
            self._sources[name] = source
            self._added[name] = hint, default
        return source is not None

    def replaced(self, replacements: Replacements) -> "Injection":
        """The same arguments, of other dependencies."""
        replacements.known.update(self.dependencies)
        other = Injection(self._state, replacements)
        for name, (hint, default) in self._added.items():
            other.add(name, hint, default)
        return other

    def fill(self, request: InferenceRequest) -> dict[str, Any]:
        """The arguments for a request. No dependency may be a coroutine."""
        made: Made = {}
        for function, dependency in self.dependencies.items():
            made[function] = function(**dependency.arguments(request, made))
        return self._filled(request, made)

    async def filled(self, request: InferenceRequest, in_thread: InThread) -> dict[str, Any]:
        """The arguments for a request. Coroutines are awaited, other functions run in a thread."""
        made: Made = {}
        for function, dependency in self.dependencies.items():
            arguments = dependency.arguments(request, made)
            made[function] = await (
                function(**arguments) if dependency.is_async else in_thread(function, **arguments)
            )
        return self._filled(request, made)

    def _filled(self, request: InferenceRequest, made: Made) -> dict[str, Any]:
        return {name: source(request, made) for name, source in self._sources.items()}

    def _source(self, hint: Any, default: Any, above: tuple[Any, ...]) -> Source | None:
        depends = default if isinstance(default, Depends) else _in_annotated(hint)
        if depends is not None:
            self.shares = True
            bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
            return self._dependency(bare if depends.function is None else depends.function, above)
        if hint is RequestContext:
            return lambda request, made: context_of(request)
        if hint is Headers or hint == Mapping[str, str]:
            return lambda request, made: headers_of(request)
        if hint is State:
            self.shares = True
            return lambda request, made: self._state
        return None

    def _dependency(self, function: Any, above: tuple[Any, ...]) -> Source:
        replacement = self._replacements.get(function, function)
        if replacement not in above:  # one that wraps the dependency needs it
            function = replacement
        if function not in self.dependencies:
            self.dependencies[function] = self._described(function, above)
        return lambda request, made: made[function]

    def _described(self, function: Any, above: tuple[Any, ...]) -> Dependency:
        if not callable(function):
            raise TypeError(f"Depends({function!r}) is no function")
        if function in above:
            raise TypeError(f"{Depends(function)!r} depends on itself")
        code = _code_of(function)
        if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
            raise TypeError(
                f"{Depends(function)!r} yields; use the app's on_load and on_unload for what must be closed"
            )
        sources: dict[str, Source] = {}
        hints = _hints_of(function, code)
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            hint, default = hints.get(parameter.name), parameter.default
            source = self._source(hint, default, (*above, function))
            if source is None and hint is None and default is parameter.empty:
                source = self._source(RequestContext, default, ())
            if source is not None:
                sources[parameter.name] = source
            elif default is parameter.empty:
                raise TypeError(
                    f'{Depends(function)!r}: nothing fills its parameter "{parameter.name}"; '
                    "a dependency takes RequestContext, Headers, State or Depends"
                )
        is_async = inspect.iscoroutinefunction(code) or inspect.iscoroutinefunction(function)
        return Dependency(function, sources, is_async)


def _code_of(function: Any) -> Any:
    """What runs when `function` is called: the `__init__` of a class, the `__call__` of an object."""
    if inspect.isroutine(function):
        return function
    return getattr(function, "__init__" if isinstance(function, type) else "__call__")


def _hints_of(function: Any, code: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(code, include_extras=True)
    except (NameError, AttributeError, SyntaxError) as error:
        raise TypeError(
            f"{Depends(function)!r}: an annotation names something that is unknown: {error}"
        ) from None
    except TypeError:  # a class whose `__init__` is Python's own
        return {}


def context_of(request: InferenceRequest) -> RequestContext:
    """The context of the request that is running, with headers that know the client."""
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
