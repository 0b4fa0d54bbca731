"""An ASGI application that is built at its first request, in a thread."""

import asyncio
from collections.abc import Callable
from typing import Any

from .messages import Receive, Scope, Send


class LazyApp:
    """Builds an application at the first request. After an error of `build` the next request tries again."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build
        self._building: asyncio.Task[Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        building = self._building
        if building is None or (building.done() and building.exception() is not None):
            building = self._building = asyncio.create_task(asyncio.to_thread(self._build))
        app = await asyncio.shield(building)  # other requests may wait for it when this client leaves
        await app(scope, receive, send)
