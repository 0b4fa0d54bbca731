"""Background tasks."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Tasks:
    """Keeps references to tasks until they are done, because an event loop has only weak references."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def __len__(self) -> int:
        return len(self._running)

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()

    async def wait_for_one(self) -> None:
        await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)

    async def wait_for_all(self) -> None:
        """Wait until no tasks are running, including tasks started while waiting."""
        while self._running:
            await asyncio.wait(self._running)
