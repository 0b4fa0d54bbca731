"""The graph of models that call other models."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ModelLoadFailed
from .call import Handler
from .execution.base import Execution
from .first_calls import ModelKey

if TYPE_CHECKING:
    from ..functions.app import App


class Callee(NamedTuple):
    """A model that another model calls."""

    execution: Execution
    handler: Handler
    """The outermost stage."""
    app: "App | None"


class CallGraph(dict[str, "CallGraph"]):
    """The models that a model calls, each mapped to the models that it calls in turn."""


Reach = Callable[[str], Awaitable[Callee]]
"""Returns the model with this name, and loads it first if it loads on demand.

Raises ModelNotFound or ModelNotReady.
"""


class CallEdges:
    """The edges from each model to the models listed in its `calls` setting. The graph is acyclic."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self._callees: dict[Execution, tuple[ModelKey, tuple[str, ...]]] = {}
        """Edges by loaded model. A replaced model keeps its edges until its last call finishes."""

    def add(self, key: ModelKey, callees: tuple[str, ...], execution: Execution) -> None:
        """Add the edges of a newly loaded model. Raises ModelLoadFailed if one closes a cycle."""
        for callee in callees:
            for path in self._paths(callee):
                if path[-1] == key[0]:
                    ways = " calls ".join((key[0], *path))
                    raise ModelLoadFailed(f"Model {key[0]} did not load: {ways}, and no call would end.")
        self._callees[execution] = (key, callees)

    def remove(self, execution: Execution) -> None:
        """Remove the edges of a model that failed to load or was unloaded."""
        self._callees.pop(execution, None)

    def calls(self, execution: Execution) -> CallGraph:
        """Return the models that a model calls, directly and indirectly.

        Several versions of a callee are merged.
        """
        _, callees = self._callees.get(execution, (None, ()))
        return self._build_graph(callees)

    def _build_graph(self, callees: Iterable[str]) -> CallGraph:
        return CallGraph({callee: self._build_graph(self._get_callees(callee)) for callee in callees})

    def _get_callees(self, name: str) -> Iterator[str]:
        for (caller, _), callees in self._callees.values():
            if caller == name:
                yield from callees

    def _paths(self, name: str) -> Iterator[tuple[str, ...]]:
        """Yield a path from this model to itself and to each model that it can reach."""
        ahead: list[tuple[str, ...]] = [(name,)]
        seen = {name}
        while ahead:
            path = ahead.pop()
            yield path
            further = [callee for callee in self._get_callees(path[-1]) if callee not in seen]
            seen.update(further)
            ahead.extend((*path, callee) for callee in further)
