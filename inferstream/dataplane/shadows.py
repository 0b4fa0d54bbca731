"""Copies of calls for shadows that run now, over all models."""

import asyncio
from collections.abc import Awaitable, Callable

from inferstream import Settings
from inferstream.ext.calls import Call, Handler, ServerParts, Tasks

from ..errors import Draining
from ..settings.traffic import TrafficSettings

Find = Callable[[str, str], Handler]
"""The stages of a version of a model. Raises ModelNotFound, ModelNotReady, Draining."""


class Shadows:
    """The copies of all models that run, or wait for the end of their call: `most` at once, each for `seconds`.

    A copy has its place from the call's arrival on, because it keeps the request and the responses.
    """

    def __init__(self, find: Find, settings: Settings) -> None:
        self.find = find
        self._seconds = settings.request_timeout or None
        self._places = settings.section(TrafficSettings).shadow_max_in_flight
        self._calls: set[Call] = set()
        self._tasks = Tasks()

    def reserve(self) -> bool:
        """Take a place for a copy, if there is one."""
        if not self._places:
            return False
        self._places -= 1
        return True

    def release(self) -> None:
        """Give the place of a copy back that does not begin."""
        self._places += 1

    def start(self, copy: Call, run: Awaitable[None]) -> None:
        """Run a copy in the place that it has."""
        if self._seconds is not None:
            copy.deadline = asyncio.get_running_loop().time() + self._seconds

        async def counted() -> None:
            try:
                await run
            finally:
                self._calls.discard(copy)
                self.release()

        self._calls.add(copy)
        self._tasks.start(counted())

    def end(self) -> None:
        """End every copy, because the server stops."""
        for copy in list(self._calls):
            copy.end(Draining())


def build_shadows(parts: ServerParts) -> Shadows | None:
    """The copies of a server; None if there are no other models."""
    models = parts.models
    if models is None:
        return None
    shadows = Shadows(lambda name, version: models.serving(name, version).handler, parts.settings)
    parts.at_stop.append(shadows.end)
    return shadows
