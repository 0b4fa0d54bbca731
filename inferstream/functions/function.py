"""`Function`, a Python function that is served as a model."""

import inspect
import typing
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from ..codecs.values.hints import ASYNC_STREAMS, stream_item
from ..errors import InvalidSettings
from ..signature import FunctionRpc, Signature
from .arguments import Arguments, resolve_hints
from .batches import check_batch
from .errors import ErrorMap, not_a_function, source_location, unwrap_partial
from .hooks import Hooks
from .injection import Replacements, State
from .results import Results


@dataclass(frozen=True)
class BatchBounds:
    """The maximum number of rows in one call of a function, and the milliseconds to wait for them."""

    rows: int = 0
    within_ms: float = 0.0


class FunctionOwner(Protocol):
    """The attributes of an app that its functions use."""

    state: State
    errors: ErrorMap
    hooks: Hooks

    def rpc_of(self, function: "ModelFunction") -> FunctionRpc | None:
        """Return the typed RPC of a model, if it has one."""


@dataclass(eq=False)
class ModelFunction:
    """The base class of functions that are served as models. `settings` are fields of `ModelSettings`."""

    function: Callable[..., Any]
    name: str
    version: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    app: FunctionOwner | None = None
    batching: BatchBounds = field(default_factory=BatchBounds)

    streams = True
    """Whether its response is a stream."""
    results: Results = field(init=False)
    _arguments: Arguments | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        given = self.function
        if isinstance(given, type) or not callable(given):
            raise not_a_function(given)
        if not inspect.isroutine(unwrap_partial(given)):
            self.function = given.__call__  # type: ignore[operator]  # `__call__` has the annotations
        self.state = None if self.app is None else self.app.state
        self.errors = ErrorMap() if self.app is None else self.app.errors

    @property
    def arguments(self) -> Arguments:
        """The arguments that clients send. Raises InvalidSettings for a step function without `admit`."""
        if self._arguments is None:
            name = getattr(self.function, "__name__", self.name)
            raise InvalidSettings(f"{self.location}: mark the function that begins a stream by @{name}.admit")
        return self._arguments

    @property
    def location(self) -> str:
        """The file, line and name of the function, for error messages."""
        return source_location(self.function)

    def replace(self, replacements: Replacements) -> Self:
        """Return the same function with replaced dependencies. Raises InvalidSettings."""
        other = copy(self)
        try:
            other._arguments = self.arguments.replace(replacements)
        except TypeError as error:
            raise InvalidSettings(f"{self.location}: {error}") from None
        return other

    def signature(self) -> Signature:
        """Return the signature that clients see."""
        return Signature(
            self.arguments.tensors(),
            self.results.tensors(),
            inputs_annotated=True,
            outputs_annotated=True,
            streams=self.streams or self.arguments.stream is not None,
            logprobs=self.results.token,
            doc=inspect.cleandoc(unwrap_partial(self.function).__doc__ or ""),
            function=True,
            rpc=None if self.app is None else self.app.rpc_of(self),
        )


@dataclass(eq=False)
class Function(ModelFunction):
    """A function that returns one response or yields a stream.

    If `streaming` is set, it must match whether the function streams. Raises InvalidSettings naming the
    file, function and parameter.
    """

    streaming: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_batching()
        bare = inspect.unwrap(self.function)
        is_async_generator = inspect.isasyncgenfunction(bare)
        self.yields = inspect.isgeneratorfunction(bare) or is_async_generator
        self.is_async = is_async_generator or any(map(inspect.iscoroutinefunction, (self.function, bare)))
        """Whether the function is a coroutine function or async generator, possibly under decorators."""
        try:
            self._arguments = Arguments(self.function, self.state, self.batching.rows > 1)
        except TypeError as error:
            raise InvalidSettings(f"{self.location}: {error}") from None
        try:
            returned = resolve_hints(self.function).get("return", inspect.Signature.empty)
            if returned is inspect.Signature.empty:
                raise TypeError(f"it has no annotation; {self._advice()}")
            item, self.annotated_stream = stream_item(returned)
            self.results = Results(item, self.batching.rows > 1)
        except TypeError as error:
            said = str(error)
            where = "" if said.startswith("return value: ") else "return value: "
            raise InvalidSettings(f"{self.location}: {where}{said}") from None
        if inspect.isgeneratorfunction(bare) and typing.get_origin(returned) in ASYNC_STREAMS:
            raise InvalidSettings(f"{self.location}: return value: a `def` that yields returns Iterator[T]")
        self.streams = self.annotated_stream or self.yields
        self.blocks = not (self.is_async or typing.get_origin(returned) in ASYNC_STREAMS)
        """Whether the stream must be read in a thread."""
        self._check_streams()
        if self.batching.rows > 1:
            check_batch(self.location, self.arguments, self.results)

    @property
    def awaits(self) -> bool:
        """Whether dependencies are awaited: coroutines, and any dependency of an async function."""
        injection = self.arguments.injection
        return bool(injection.coroutines or (self.is_async and injection.dependencies))

    def _check_batching(self) -> None:
        """Raise InvalidSettings for negative batch limits, or for `within_ms` without `batch`."""
        rows, within_ms = self.batching.rows, self.batching.within_ms
        if rows < 0 or within_ms < 0:
            raise InvalidSettings(f"{self.location}: batch and within_ms cannot be negative")
        if within_ms and not rows:
            raise InvalidSettings(f"{self.location}: within_ms needs batch, the most items of one call")

    def _check_streams(self) -> None:
        """Raise InvalidSettings for a function that could not read or produce its stream."""
        if self.streaming and not self.streams:
            raise InvalidSettings(f"{self.location}: streaming=True needs a function that yields")
        if self.streaming is False and self.streams:
            raise InvalidSettings(f"{self.location}: it yields, so it streams; remove streaming=False")
        read = self.arguments.stream
        if read is not None and self.arguments.stream_is_async is self.blocks:
            wanted = "a `def` reads Iterator[T]" if self.blocks else "an `async def` reads AsyncIterator[T]"
            raise InvalidSettings(f'{self.location}: parameter "{read.name}": {wanted}')
        if self.batching.rows > 1 and (self.streams or read is not None):
            raise InvalidSettings(f"{self.location}: a function that streams cannot take a batch")

    def _advice(self) -> str:
        """Return the advice for a missing return annotation."""
        if not self.yields:
            return "write -> None for a function that returns nothing, else its type, such as -> str"
        stream = "AsyncIterator" if self.is_async else "Iterator"
        return f"the function yields: write -> {stream}[T], where T is the type of an item, such as str"


def pascal(name: str) -> str:
    """Convert a model name to a message or RPC name: `my-model` becomes `MyModel`."""
    words = "".join(character if character.isalnum() else "_" for character in name).split("_")
    return "".join(word.capitalize() for word in words)
