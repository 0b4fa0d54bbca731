"""The models that call others: who may call whom, over all models that are loaded."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ModelLoadFailed
from .call import Handler
from .execution.base import Execution
from .first_calls import ModelKey

if TYPE_CHECKING:
    from ..functions.app import App


class Callee(NamedTuple):
    """A model that another one calls."""

    execution: Execution
    handler: Handler
    """Its outermost stage."""
    app: "App | None"


class CallGraph(dict[str, "CallGraph"]):
    """The models that one calls, each with those that it calls in turn."""


Reach = Callable[[str], Awaitable[Callee]]
"""The model of this name, after its load if it loads on demand. Raises ModelNotFound, ModelNotReady."""


class CallEdges:
    """An edge leads from a model to each one that its setting `calls` names. There is no way in a circle."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self._callees: dict[Execution, tuple[ModelKey, tuple[str, ...]]] = {}
        """The edges of each load of a model: of an older one too, which calls until its last call has ended."""

    def add(self, key: ModelKey, callees: tuple[str, ...], execution: Execution) -> None:
        """Add the edges of a load of a model. Raises ModelLoadFailed if one closes a circle."""
        for callee in callees:
            for path in self._paths(callee):
                if path[-1] == key[0]:
                    ways = " calls ".join((key[0], *path))
                    raise ModelLoadFailed(f"Model {key[0]} did not load: {ways}, and no call would end.")
        self._callees[execution] = (key, callees)

    def remove(self, execution: Execution) -> None:
        """Forget the edges of a load that failed later, or has ended."""
        self._callees.pop(execution, None)

    def calls(self, execution: Execution) -> CallGraph:
        """What a model calls, and what that calls in turn: of several versions, what any of them calls."""
        _, callees = self._callees.get(execution, (None, ()))
        return self._below(callees)

    def _below(self, callees: Iterable[str]) -> CallGraph:
        return CallGraph({callee: self._below(self._of(callee)) for callee in callees})

    def _of(self, name: str) -> Iterator[str]:
        for (caller, _), callees in self._callees.values():
            if caller == name:
                yield from callees

    def _paths(self, name: str) -> Iterator[tuple[str, ...]]:
        """A way to each model that calls from this one can reach, this one first."""
        ahead: list[tuple[str, ...]] = [(name,)]
        seen = {name}
        while ahead:
            path = ahead.pop()
            yield path
            further = [callee for callee in self._of(path[-1]) if callee not in seen]
            seen.update(further)
            ahead.extend((*path, callee) for callee in further)
