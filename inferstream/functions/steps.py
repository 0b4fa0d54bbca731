"""`StepFunction`: functions that advance all streams of a model together."""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..errors import InvalidSettings
from ..model import Finished, StepModel
from ..signature import Signature
from ..types import InferenceRequest
from .arguments import Arguments, hints_of
from .function import Batching, no_function, place_of
from .results import Results, ResultWriter

if TYPE_CHECKING:
    from .app import App

Admit = typing.TypeVar("Admit", bound=Callable[..., Any])
Release = typing.TypeVar("Release", bound=Callable[[Any], Any])


class StepFunction:
    """A step function, with the functions that begin and end a stream."""

    batching = Batching()

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        version: str | None,
        settings: Mapping[str, Any],
        app: "App | None" = None,
    ) -> None:
        self.function = function
        self.name = name
        self.version = version
        self.settings = settings
        self.app = app
        self._admit: Callable[..., Any] | None = None
        self._release: Callable[[Any], Any] | None = None
        self._arguments: Arguments | None = None
        if not inspect.isroutine(function):
            raise no_function(function)
        try:
            self.results = Results(_item(hints_of(function).get("return")))
        except TypeError as error:
            raise InvalidSettings(f"{self.place}: return value: {error}") from None

    def __call__(self, states: Sequence[Any]) -> Any:
        """Call the function itself, as a test of it does."""
        return self.function(states)

    def admit(self, function: Admit) -> Admit:
        """Mark the function that makes the state of a stream of the arguments of its request."""
        self._admit = function
        try:
            self._arguments = Arguments(function, None if self.app is None else self.app.state)
            if self._arguments.stream is not None:
                raise TypeError("a step function cannot read a stream")
        except TypeError as error:
            raise InvalidSettings(f"{self.place}: admit: {error}") from None
        return function

    def release(self, function: Release) -> Release:
        """Mark the function that gets the state of a stream after its end."""
        self._release = function
        return function

    @property
    def arguments(self) -> Arguments:
        """The arguments of `admit`. Raises InvalidSettings without one."""
        if self._arguments is None:
            name = getattr(self.function, "__name__", self.name)
            raise InvalidSettings(f"{self.place}: mark the function that begins a stream by @{name}.admit")
        return self._arguments

    @property
    def place(self) -> str:
        """File, line and name, for error messages."""
        return place_of(self.function)

    streams = True

    def signature(self) -> Signature:
        """What clients know of it."""
        return Signature(
            self.arguments.tensors(),
            self.results.tensors(),
            inputs_annotated=True,
            outputs_annotated=True,
            streams=True,
            logprobs=self.results.token,
            doc=inspect.cleandoc(self.function.__doc__ or ""),
            function=True,
            rpc=None if self.app is None else self.app.rpc_of(self),
        )

    def model_class(self) -> type["StepFunctionModel"]:
        """The class of models that run these functions."""
        arguments, admit, release = self.arguments, self._admit, self._release
        assert admit is not None
        injection = arguments.injection
        if injection.coroutines:
            raise InvalidSettings(f"{self.place}: admit: its dependencies must be `def`")

        function: Callable[..., Any] = self.function

        def begin(self: Any, request: InferenceRequest) -> Any:
            return admit(**arguments.read(request), **injection.fill(request))

        def step(self: Any, states: Sequence[Any]) -> Any:
            return function(states)

        members: dict[str, Any] = {
            "described": self,
            "signature": self.signature(),
            "__module__": self.function.__module__,
            "__doc__": self.function.__doc__,
            "admit": self._mapped(_as(begin, admit)),
            "step": self._mapped(_as(step, function)),
        }
        if release is not None:
            members["release"] = _as(lambda model, state: release(state), release)
        return type(self.name, (StepFunctionModel,), members)

    def _mapped(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """`method` with the app's errors for exceptions that the app maps: raised ones, and results of a step."""
        errors = None if self.app is None else self.app.errors
        if not errors:
            return method

        def results(returned: Any) -> Any:
            if not isinstance(returned, list):
                return returned
            return [errors.translated(item) if isinstance(item, Exception) else item for item in returned]

        def fail(error: Exception) -> NoReturn:
            mapped = errors.translated(error)
            if mapped is error:
                raise error
            raise mapped from error

        async def awaited(*arguments: Any) -> Any:
            try:
                return results(await method(*arguments))
            except Exception as error:
                fail(error)

        def called(*arguments: Any) -> Any:
            try:
                return results(method(*arguments))
            except Exception as error:
                fail(error)

        return awaited if inspect.iscoroutinefunction(inspect.unwrap(method)) else called


class StepFunctionModel(StepModel):
    """The base of the classes that `StepFunction.model_class` makes."""

    described: ClassVar[StepFunction]
    signature: ClassVar[Signature]

    def writer(self) -> ResultWriter:
        """What makes responses of the values of steps."""
        return self.described.results.writer(self.name, self.version)

    async def load(self) -> bool:
        if self.described.app is not None:
            await self.described.app.hooks.enter()
        return True

    async def unload(self) -> bool:
        if self.described.app is not None:
            await self.described.app.hooks.leave()
        return True


def _as(method: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`method`, which the server takes for `async def` if the function is."""
    method.__wrapped__ = function  # type: ignore[attr-defined]
    return method


def _item(returned: Any) -> Any:
    """The annotation of one item of `-> list[str | None | Finished]`. Raises TypeError for another form."""
    if typing.get_origin(returned) not in (list, Sequence):
        raise TypeError("a step returns a list with one item for each state: write -> list[T | None]")
    (element,) = typing.get_args(returned)
    members = typing.get_args(element) if typing.get_origin(element) is not None else (element,)
    kinds = [member for member in members if not _is_sign(member)] if len(members) > 1 else [element]
    if len(kinds) != 1:
        raise TypeError(f"a step makes items of one type, not {len(kinds)}")
    return kinds[0]


def _is_sign(hint: Any) -> bool:
    """Whether this part of the annotation says that there is no item, an end, or an error."""
    if hint is type(None) or hint is Finished:
        return True
    return isinstance(hint, type) and issubclass(hint, Exception)
