"""The first calls of models that load on demand: they wait for one load, whoever began it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from ..errors import Overloaded
from ..types import State

ModelKey = tuple[str, str | None]

ON_DEMAND = (State.READY, "the first call loads it")
"""The state of a model that has not been loaded."""


def label_of(key: ModelKey) -> str:
    """For people."""
    name, version = key
    return f"{name}:{version}" if version else name


class NotLoaded(Exception):
    """A call is the first of a model that loads on demand: its door waits for the load, and admits it again.

    No error of the package, because no dialect may answer it.
    """

    def __init__(self, key: ModelKey) -> None:
        super().__init__(key)
        self.key = key


class FirstCalls:
    """Runs `load` once for all calls that wait for a model."""

    def __init__(self, load: Callable[[ModelKey], Coroutine[Any, Any, None]]) -> None:
        self._load = load
        self._loads: dict[ModelKey, asyncio.Task[None]] = {}
        self._waiting: Counter[ModelKey] = Counter()
        self.bounds: dict[ModelKey, int] = {}
        """How many calls may wait for each model on demand."""

    def __contains__(self, key: ModelKey) -> bool:
        """Whether this model is being loaded for its first calls."""
        return key in self._loads

    async def wait(self, key: ModelKey) -> None:
        """Wait until a model has loaded. Raises Overloaded, and what the load raises."""
        bound = self.bounds.get(key, 0)
        if self._waiting[key] > bound:
            raise Overloaded(f"Model {key[0]} is overloaded: {bound} calls are waiting already.")
        if key not in self._loads:
            self._loads[key] = asyncio.create_task(self._load(key))
            self._loads[key].add_done_callback(lambda load: self._loaded(key, load))
        self._waiting[key] += 1
        try:
            await asyncio.shield(self._loads[key])
        finally:
            self._waiting[key] -= 1

    def _loaded(self, key: ModelKey, load: asyncio.Task[None]) -> None:
        del self._loads[key]
        if not load.cancelled():
            load.exception()  # read, in case that all callers have left

    def cancel(self) -> None:
        for load in self._loads.values():
            load.cancel()
