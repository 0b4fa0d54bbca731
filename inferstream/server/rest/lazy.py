"""An ASGI application that is made when the first request asks for it, in a thread."""

import asyncio
from collections.abc import Callable
from typing import Any

from .messages import Receive, Scope, Send


class LazyApp:
    """Stands for what `build` makes. Its requests wait for it; the event loop does not.

    What `build` raises ends the requests that waited for it, and the next one has it tried again.
    """

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._building: asyncio.Task[Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        building = self._building
        if building is None or (building.done() and building.exception() is not None):
            building = self._building = asyncio.create_task(asyncio.to_thread(self._build))
        app = await asyncio.shield(building)  # others wait for it when this client has left
        await app(scope, receive, send)
