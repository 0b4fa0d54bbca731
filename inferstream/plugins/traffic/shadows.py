"""The running shadow calls of all models."""

import asyncio
from collections.abc import Awaitable, Callable

from inferstream import Settings
from inferstream.errors import Draining
from inferstream.ext.calls import Call, Handler, ServerParts, Tasks

from .settings import TrafficSettings

Find = Callable[[str, str], Handler]
"""Finds the handler of a version. Raises ModelNotFound, ModelNotReady or Draining."""


class Shadows:
    """All copies that are running or waiting for the original call to end.

    Their number is limited by `shadow_max_in_flight`, and their time by `request_timeout`. A copy occupies a
    slot from the arrival of the original call, because it keeps the request and responses in memory.
    """

    def __init__(self, find: Find, settings: Settings) -> None:
        self.find = find
        self._seconds = settings.request_timeout or None
        self._places = settings.section(TrafficSettings).shadow_max_in_flight
        self._calls: set[Call] = set()
        self._tasks = Tasks()

    def reserve(self) -> bool:
        """Reserve a slot for a copy. Returns False if none is free."""
        if not self._places:
            return False
        self._places -= 1
        return True

    def release(self) -> None:
        """Release the slot of a copy that has finished or will not start."""
        self._places += 1

    def start(self, copy: Call, run: Awaitable[None]) -> None:
        """Run a copy in its reserved slot."""
        if self._seconds is not None:
            copy.deadline = asyncio.get_running_loop().time() + self._seconds

        async def run_and_release() -> None:
            try:
                await run
            finally:
                self._calls.discard(copy)
                self.release()

        self._calls.add(copy)
        self._tasks.start(run_and_release())

    def end(self) -> None:
        """Cancel all copies when the server stops."""
        for copy in list(self._calls):
            copy.end(Draining())


def build_shadows(parts: ServerParts) -> Shadows | None:
    """Build the shadow calls of a server, or return None if it has no model registry."""
    models = parts.models
    if models is None:
        return None
    shadows = Shadows(lambda name, version: models.serving(name, version).handler, parts.settings)
    parts.at_stop.append(shadows.end)
    return shadows
