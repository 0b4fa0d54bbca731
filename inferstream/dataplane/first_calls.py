"""Models that load on demand: concurrent first calls share a single load."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from ..errors import Overloaded
from ..types import State

ModelKey = tuple[str, str | None]

ON_DEMAND = (State.READY, "the first call loads it")
"""The state of a model before its first load."""


def format_key(key: ModelKey) -> str:
    """Format a model's name and version for messages."""
    name, version = key
    return f"{name}:{version}" if version else name


class NotLoaded(Exception):
    """Raised for the first call of a model that loads on demand.

    The transport waits for the load and admits the call again. It does not derive from the package's errors,
    so that no dialect sends it to a client.
    """

    def __init__(self, key: ModelKey) -> None:
        super().__init__(key)
        self.key = key


class FirstCalls:
    """Runs `load` once for all calls that wait for the same model."""

    def __init__(self, load: Callable[[ModelKey], Coroutine[Any, Any, None]]) -> None:
        self._load = load
        self._loads: dict[ModelKey, asyncio.Task[None]] = {}
        self._waiting: Counter[ModelKey] = Counter()
        self.bounds: dict[ModelKey, int] = {}
        """Maximum number of waiting calls, by model."""

    def __contains__(self, key: ModelKey) -> bool:
        """Whether this model is being loaded for its first calls."""
        return key in self._loads

    async def wait(self, key: ModelKey) -> None:
        """Wait until a model is loaded. Raises Overloaded or the error of the load."""
        bound = self.bounds.get(key, 0)
        if self._waiting[key] > bound:
            raise Overloaded(f"Model {key[0]} is overloaded: {bound} calls are waiting already.")
        if key not in self._loads:
            self._loads[key] = asyncio.create_task(self._load(key))
            self._loads[key].add_done_callback(lambda load: self._finish_load(key, load))
        self._waiting[key] += 1
        try:
            await asyncio.shield(self._loads[key])
        finally:
            self._waiting[key] -= 1

    def _finish_load(self, key: ModelKey, load: asyncio.Task[None]) -> None:
        del self._loads[key]
        if not load.cancelled():
            load.exception()  # Mark the exception as retrieved, in case all callers have left.

    def cancel(self) -> None:
        for load in self._loads.values():
            load.cancel()
