"""Sends the later requests of a call while its responses are read."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from ..concurrency.scope import FAILURES


@asynccontextmanager
async def feeding(sending: Coroutine[Any, Any, None], abort: Callable[[], object]) -> AsyncIterator[None]:
    """Run `sending` beside the block, which ends it.

    A failure of `sending` aborts the call, and is raised in place of the failure that the block has from this.
    """
    failed: list[Exception] = []

    async def send() -> None:
        try:
            await sending
        except Exception as error:
            failed.append(error)
            abort()

    task = asyncio.create_task(send())
    try:
        yield
    except FAILURES:
        if failed:
            raise failed[0] from None
        raise
    finally:
        task.cancel()
        await asyncio.wait([task])
    if failed:
        raise failed[0]
