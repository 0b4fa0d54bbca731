"""Arguments that clients do not send: the request context, headers, the app state and dependencies."""

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
    """Shared state of the functions of an app, for example `app.state.db = connect()`."""


class Depends:
    """A default, or `Annotated` metadata, that fills an argument with the result of a function.

    The function can be `def` or `async def`. If the model function is `async def`, a `def` dependency runs in
    a thread. The parameters of the function can be a `RequestContext`, `Headers`, `State` or other
    dependencies. It runs once per call of a model, even if several arguments need it. Without a function, the
    class in the annotation is called.
    """

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self.function = function

    def __repr__(self) -> str:
        return f"Depends({getattr(self.function, '__qualname__', self.function)})"


def depends(function: Callable[..., Any] | None = None) -> Any:
    """Create a `Depends`. Type checkers accept the result as a default of any type."""
    return Depends(function)


Overrides = Mapping[Callable[..., Any], Callable[..., Any]]
"""Replacement functions, by the dependency that they replace."""

Made = dict[Any, Any]
"""The results of the dependencies of one call, by function."""

Source = Callable[[InferenceRequest, Made], Any]
"""A function that returns the value of an argument."""

replacements_var: ContextVar["Replacements | None"] = ContextVar("replacements", default=None)
"""Replacements for dependencies of functions that become models in this context."""

InThread = Callable[..., Awaitable[Any]]
"""A function that calls its first argument in a thread, with the other arguments."""


class Dependency(typing.NamedTuple):
    """A function that fills arguments, with the sources of its own arguments."""

    function: Callable[..., Any]
    sources: dict[str, Source]
    is_async: bool

    def arguments(self, request: InferenceRequest, made: Made) -> dict[str, Any]:
        return {name: source(request, made) for name, source in self.sources.items()}


class Replacements(dict[Any, Any]):
    """Overrides that are in use. `known` collects the dependencies of all functions so far."""

    def __init__(self, overrides: Overrides) -> None:
        super().__init__(overrides)
        self.known: set[Any] = set()

    def find_extras(self) -> list[str]:
        """Return the names of overrides that do not replace any dependency."""
        return [getattr(each, "__qualname__", repr(each)) for each in self if each not in self.known]


@contextmanager
def replacing(replacements: Replacements) -> Iterator[None]:
    """Replace dependencies of functions that become models within the block."""
    token = replacements_var.set(replacements)
    try:
        yield
    finally:
        replacements_var.reset(token)


class Injection:
    """The arguments of one function that clients do not send.

    Raises TypeError for a dependency that is not callable.
    """

    def __init__(self, state: State | None = None, replacements: Mapping[Any, Any] | None = None) -> None:
        self._state = State() if state is None else state
        self._replacements = replacements or {}
        self._added: dict[str, tuple[Any, Any]] = {}
        self._sources: dict[str, Source] = {}
        self.dependencies: dict[Callable[..., Any], Dependency] = {}
        """Dependencies by function, topologically sorted: each follows the ones that it needs."""
        self.shares = False
        """Whether an argument may be an object that is shared with other calls."""

    def __bool__(self) -> bool:
        return bool(self._sources)

    @property
    def coroutines(self) -> list[Callable[..., Any]]:
        """The dependencies that are `async def`."""
        return [each.function for each in self.dependencies.values() if each.is_async]

    def add(self, name: str, hint: Any, default: Any) -> bool:
        """Fill the parameter `name` of a function if its annotation or default requests it.

        Returns whether the parameter is filled.
        """
        source = self._source(hint, default, ())
        if source is not None:
            self._sources[name] = source
            self._added[name] = hint, default
        return source is not None

    def replace(self, replacements: Replacements) -> "Injection":
        """Return the same arguments with replaced dependencies."""
        replacements.known.update(self.dependencies)
        other = Injection(self._state, replacements)
        for name, (hint, default) in self._added.items():
            other.add(name, hint, default)
        return other

    def fill(self, request: InferenceRequest) -> dict[str, Any]:
        """Return the arguments for a request. Dependencies must not be coroutines."""
        made: Made = {}
        for function, dependency in self.dependencies.items():
            made[function] = function(**dependency.arguments(request, made))
        return self._fill_sync(request, made)

    async def fill_async(self, request: InferenceRequest, in_thread: InThread) -> dict[str, Any]:
        """Return the arguments for a request. Coroutines are awaited, and other functions run in a thread."""
        made: Made = {}
        for function, dependency in self.dependencies.items():
            arguments = dependency.arguments(request, made)
            made[function] = await (
                function(**arguments) if dependency.is_async else in_thread(function, **arguments)
            )
        return self._fill_sync(request, made)

    def _fill_sync(self, request: InferenceRequest, made: Made) -> dict[str, Any]:
        return {name: source(request, made) for name, source in self._sources.items()}

    def _source(self, hint: Any, default: Any, above: tuple[Any, ...]) -> Source | None:
        depends = default if isinstance(default, Depends) else _find_dependency(hint)
        if depends is not None:
            self.shares = True
            bare = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
            return self._dependency(bare if depends.function is None else depends.function, above)
        if hint is RequestContext:
            return lambda request, made: build_context(request)
        if hint is Headers or hint == Mapping[str, str]:
            return lambda request, made: get_headers(request)
        if hint is State:
            self.shares = True
            return lambda request, made: self._state
        return None

    def _dependency(self, function: Any, above: tuple[Any, ...]) -> Source:
        replacement = self._replacements.get(function, function)
        if replacement not in above:  # a replacement may depend on the function that it replaces
            function = replacement
        if function not in self.dependencies:
            self.dependencies[function] = self._add_dependency(function, above)
        return lambda request, made: made[function]

    def _add_dependency(self, function: Any, above: tuple[Any, ...]) -> Dependency:
        if not callable(function):
            raise TypeError(f"Depends({function!r}) is no function")
        if function in above:
            raise TypeError(f"{Depends(function)!r} depends on itself")
        code = _find_code(function)
        if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
            raise TypeError(
                f"{Depends(function)!r} yields; use the app's on_load and on_unload for what must be closed"
            )
        sources: dict[str, Source] = {}
        hints = _resolve_hints(function, code)
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


def _find_code(function: Any) -> Any:
    """Return the function behind a callable: `__init__` for a class, `__call__` for an object."""
    if inspect.isroutine(function):
        return function
    return getattr(function, "__init__" if isinstance(function, type) else "__call__")


def _resolve_hints(function: Any, code: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(code, include_extras=True)
    except (NameError, AttributeError, SyntaxError) as error:
        raise TypeError(
            f"{Depends(function)!r}: an annotation names something that is unknown: {error}"
        ) from None
    except TypeError:  # a class without its own `__init__`
        return {}


def build_context(request: InferenceRequest) -> RequestContext:
    """Return the context of the current request, with headers that include the origin."""
    context = request_context()
    context.headers = get_headers(request)
    return context


def get_headers(request: InferenceRequest) -> Mapping[str, str]:
    """Return the headers of a request, or the metadata of its RPC."""
    parameters = request.parameters
    headers = None if parameters is None else parameters.headers
    return Headers(()) if headers is None else headers


def _find_dependency(hint: Any) -> Depends | None:
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    return next((part for part in typing.get_args(hint)[1:] if isinstance(part, Depends)), None)
