"""`Function`: a Python function with all that is known of it as a model."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidSettings
from ..signature import Rpc, Signature
from .arguments import Arguments, hints_of
from .batches import check_batch
from .injection import State
from .results import ASYNC, Results, item_hint

if TYPE_CHECKING:
    from .app import App


@dataclass(frozen=True)
class Batching:
    """Rows that one call of a function may take, and the milliseconds to wait for them."""

    rows: int = 0
    within_ms: float = 0.0


@dataclass
class Function:
    """A function as a model.

    `streaming` is for functions whose return annotation is that of one item. `settings` are fields of
    `ModelSettings`. Raises InvalidSettings, which names file, function and parameter.
    """

    function: Callable[..., Any]
    name: str
    version: str | None = None
    streaming: bool | None = None
    batching: Batching = field(default_factory=Batching)
    settings: Mapping[str, Any] = field(default_factory=dict)
    app: "App | None" = None

    def __post_init__(self) -> None:
        function = self.function
        if not inspect.isroutine(function):
            raise no_function(function)
        self._check_batching()
        try:
            self.arguments = Arguments(function, self.state, self.batching.rows > 1)
        except TypeError as error:
            raise InvalidSettings(f"{self.place}: {error}") from None
        try:
            returned = hints_of(function).get("return", inspect.Signature.empty)
            if returned is inspect.Signature.empty:
                raise TypeError(f"it has no annotation; {self._advice()}")
            item, self.annotated_stream = item_hint(returned)
            self.annotated_async = typing.get_origin(returned) in ASYNC
            self.results = Results(item, self.batching.rows > 1)
        except TypeError as error:
            said = str(error)
            where = "" if said.startswith("return value: ") else "return value: "
            raise InvalidSettings(f"{self.place}: {where}{said}") from None
        self._check_streams()
        if self.batching.rows > 1:
            check_batch(self.place, self.arguments, self.results)

    def _check_batching(self) -> None:
        """Raises InvalidSettings for limits of a batch that would have no effect."""
        rows, within_ms = self.batching.rows, self.batching.within_ms
        if rows < 0 or within_ms < 0:
            raise InvalidSettings(f"{self.place}: batch and within_ms cannot be negative")
        if within_ms and not rows:
            raise InvalidSettings(f"{self.place}: within_ms needs batch, the most items of one call")

    def _check_streams(self) -> None:
        """Raises InvalidSettings for a function that could not read or make its stream."""
        if self.streaming and not self.streams:
            raise InvalidSettings(f"{self.place}: streaming=True needs a function that yields")
        if self.streaming is False and self.streams:
            raise InvalidSettings(f"{self.place}: it yields, so it streams; remove streaming=False")
        bare = inspect.unwrap(self.function)
        if inspect.isgeneratorfunction(bare) and self.annotated_async:
            raise InvalidSettings(f"{self.place}: return value: a `def` that yields returns Iterator[T]")
        read = self.arguments.stream
        if read is not None and self.arguments.stream_is_async is self.blocks:
            wanted = "a `def` reads Iterator[T]" if self.blocks else "an `async def` reads AsyncIterator[T]"
            raise InvalidSettings(f'{self.place}: parameter "{read.name}": {wanted}')
        if self.batching.rows > 1 and (self.streams or read is not None):
            raise InvalidSettings(f"{self.place}: a function that streams cannot take a batch")

    def _advice(self) -> str:
        """What to write where the return value has no annotation."""
        if not self.yields:
            return "write -> None for a function that returns nothing, else its type, such as -> str"
        stream = "AsyncIterator" if self.is_async else "Iterator"
        return f"the function yields: write -> {stream}[T], where T is the type of an item, such as str"

    @property
    def state(self) -> State | None:
        return None if self.app is None else self.app.state

    @property
    def place(self) -> str:
        """File, line and name, for error messages."""
        return place_of(self.function)

    @property
    def yields(self) -> bool:
        """Whether it is a generator."""
        bare = inspect.unwrap(self.function)
        return inspect.isgeneratorfunction(bare) or inspect.isasyncgenfunction(bare)

    @property
    def streams(self) -> bool:
        """Whether its response is a stream."""
        return self.annotated_stream or self.yields

    @property
    def blocks(self) -> bool:
        """Whether its stream must be read in a thread."""
        return not (self.is_async or self.annotated_async)

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine or an async generator, itself or under its decorators."""
        bare = inspect.unwrap(self.function)
        return any(map(inspect.iscoroutinefunction, (self.function, bare))) or inspect.isasyncgenfunction(
            bare
        )

    @property
    def awaits(self) -> bool:
        """Whether its dependencies are awaited: coroutines, and those of a coroutine that may block."""
        injection = self.arguments.injection
        return bool(injection.coroutines) or (self.is_async and bool(injection.dependencies))

    def signature(self) -> Signature:
        """What clients know of it."""
        return Signature(
            self.arguments.tensors(),
            self.results.tensors(),
            inputs_annotated=True,
            outputs_annotated=True,
            streams=self.streams or self.arguments.stream is not None,
            logprobs=self.results.token,
            doc=inspect.cleandoc(self.function.__doc__ or ""),
            function=True,
            rpc=self.rpc(),
        )

    def rpc(self) -> Rpc | None:
        """Its typed RPC; None for a function of no app."""
        return None if self.app is None else self.app.rpc_of(self)


def place_of(function: Callable[..., Any]) -> str:
    """File, line and name of a function, for error messages, which may reach clients: without a path."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    if code is None:
        return f"function {name}"
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}, function {name}"


def no_function(thing: Any) -> InvalidSettings:
    """The error for what is marked as a function and is none."""
    what = f"class {thing.__module__}.{thing.__qualname__}" if isinstance(thing, type) else repr(thing)
    return InvalidSettings(f"{what} is no function")


def pascal(name: str) -> str:
    """A model's name as a part of names of messages and RPCs: `my-model` becomes `MyModel`."""
    words = "".join(character if character.isalnum() else "_" for character in name).split("_")
    return "".join(word.capitalize() for word in words)
