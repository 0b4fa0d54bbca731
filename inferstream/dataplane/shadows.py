"""Copies of calls for shadows that run now, over all models."""

import asyncio
from collections.abc import Awaitable, Callable

from ..concurrency.tasks import Tasks
from ..errors import Draining
from ..settings import Settings
from .call import Call, Handler

Find = Callable[[str, str], Handler]
"""The stages of a version of a model. Raises ModelNotFound, ModelNotReady, Draining."""


class Shadows:
    """The copies that run now, of all models. At most `most` run at once, each for at most `seconds`."""

    def __init__(self, find: Find, settings: Settings) -> None:
        self.find = find
        self._most = settings.shadow_max_in_flight
        self._seconds = settings.request_timeout or None
        self._calls: set[Call] = set()
        self._tasks = Tasks()

    @property
    def full(self) -> bool:
        return len(self._calls) >= self._most

    def start(self, copy: Call, run: Awaitable[None]) -> None:
        if self._seconds is not None:
            copy.deadline = asyncio.get_running_loop().time() + self._seconds

        async def counted() -> None:
            try:
                await run
            finally:
                self._calls.discard(copy)

        self._calls.add(copy)
        self._tasks.start(counted())

    def end(self) -> None:
        """End every copy, because the server stops."""
        for copy in list(self._calls):
            copy.end(Draining())
