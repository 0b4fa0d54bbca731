"""`Function`: a Python function with all that is known of it as a model."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InvalidSettings
from ..signature import Rpc, Signature
from .arguments import Arguments, hints_of
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
            raise InvalidSettings(f"{function!r} is no function")
        try:
            self.arguments = Arguments(function, self.state)
        except TypeError as error:
            raise InvalidSettings(f"{self.place}: {error}") from None
        try:
            returned = hints_of(function).get("return", inspect.Signature.empty)
            if returned is inspect.Signature.empty:
                raise TypeError("it has no annotation; write -> None for a function that returns nothing")
            item, self.annotated_stream = item_hint(returned)
            self.annotated_async = typing.get_origin(returned) in ASYNC
            self.results = Results(item)
        except TypeError as error:
            raise InvalidSettings(f"{self.place}: return value: {error}") from None
        if self.streaming and not self.streams:
            raise InvalidSettings(f"{self.place}: streaming=True needs a function that yields")
        if self.streaming is False and self.streams:
            raise InvalidSettings(f"{self.place}: it yields, so it streams; remove streaming=False")
        if self.batching.rows > 1 and (self.streams or self.arguments.stream is not None):
            raise InvalidSettings(f"{self.place}: a function that streams cannot take a batch")

    @property
    def state(self) -> State | None:
        return None if self.app is None else self.app.state

    @property
    def place(self) -> str:
        """File, line and name, for error messages."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        name = getattr(self.function, "__qualname__", repr(self.function))
        return name if code is None else f"{code.co_filename}, line {code.co_firstlineno}, function {name}"

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
        """Whether it is a coroutine or an async generator."""
        bare = inspect.unwrap(self.function)
        return inspect.iscoroutinefunction(bare) or inspect.isasyncgenfunction(bare)

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


def pascal(name: str) -> str:
    """A model's name as a part of names of messages and RPCs: `my-model` becomes `MyModel`."""
    words = "".join(character if character.isalnum() else "_" for character in name).split("_")
    return "".join(word.capitalize() for word in words)
