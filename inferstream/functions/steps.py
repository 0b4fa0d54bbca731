"""`StepFunction`, a function that advances all streams of a model together."""

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import InvalidSettings
from ..model import Finished
from ..types import InferenceRequest
from .arguments import Arguments, resolve_hints
from .errors import Check, Method
from .function import ModelFunction
from .results import Results

Admit = typing.TypeVar("Admit", bound=Callable[..., Any])
Release = typing.TypeVar("Release", bound=Callable[[Any], Any])


class StepFunction(ModelFunction):
    """A step function, with its `admit` and `release` functions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._admit: Callable[..., Any] | None = None
        self._release: Callable[[Any], Any] | None = None
        try:
            self.results = Results(_item(resolve_hints(self.function).get("return")))
        except TypeError as error:
            raise InvalidSettings(f"{self.location}: return value: {error}") from None

    def __call__(self, states: Sequence[Any]) -> Any:
        """Call the function itself, for example in a test."""
        return self.function(states)

    def admit(self, function: Admit) -> Admit:
        """Mark the function that creates the state of a stream from the arguments of its request."""
        self._admit = function
        try:
            self._arguments = Arguments(function, self.state)
            if self._arguments.stream is not None:
                raise TypeError("a step function cannot read a stream")
        except TypeError as error:
            raise InvalidSettings(f"{self.location}: admit: {error}") from None
        return function

    def release(self, function: Release) -> Release:
        """Mark the function that is called with the state of a stream after its end."""
        self._release = function
        return function

    def methods(self) -> dict[str, Any]:
        """Return the methods of the model class that runs these functions. Raises InvalidSettings."""
        arguments, admit, release, step = self.arguments, self._admit, self._release, self.function
        assert admit is not None
        if arguments.injection.coroutines:
            raise InvalidSettings(f"{self.location}: admit: its dependencies must be `def`")

        def begin(model: Any, request: InferenceRequest) -> Any:
            return admit(**arguments.given(request))

        methods = {
            "admit": self._map_exceptions(begin, admit),
            "step": self._map_exceptions(lambda model, states: step(states), step, self._translate),
        }
        if release is not None:
            methods["release"] = _mark_async_like(lambda model, state: release(state), release)
        return methods

    def _map_exceptions(
        self, method: Method, function: Callable[..., Any], check: Check | None = None
    ) -> Method:
        """Map the exceptions of `method`, and make it async if `function` is."""
        if not self.errors:
            return _mark_async_like(method, function)
        return self.errors.guard(method, inspect.iscoroutinefunction(inspect.unwrap(function)), check)

    def _translate(self, model: Any, states: Any, results: Any) -> Any:
        """Return the results of a step, with exceptions mapped to the errors of the app."""
        if not isinstance(results, list):
            return results
        return [self.errors.translate(item) if isinstance(item, Exception) else item for item in results]


def _mark_async_like(method: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Make the server treat `method` as `async def` if `function` is."""
    method.__wrapped__ = function  # type: ignore[attr-defined]
    return method


def _item(returned: Any) -> Any:
    """Return the item annotation in `-> list[str | None | Finished]`. Raises TypeError for anything else."""
    if typing.get_origin(returned) not in (list, Sequence):
        raise TypeError("a step returns a list with one item for each state: write -> list[T | None]")
    (element,) = typing.get_args(returned)
    members = typing.get_args(element) if typing.get_origin(element) is not None else (element,)
    kinds = [member for member in members if not _is_sign(member)] if len(members) > 1 else [element]
    if len(kinds) != 1:
        raise TypeError(f"a step makes items of one type, not {len(kinds)}")
    return kinds[0]


def _is_sign(hint: Any) -> bool:
    """Whether this member of the annotation stands for no item, the end or an error."""
    if hint is type(None) or hint is Finished:
        return True
    return isinstance(hint, type) and issubclass(hint, Exception)
