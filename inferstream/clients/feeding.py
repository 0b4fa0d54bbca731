"""Sends the later requests of a call while its responses are read."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from ..concurrency.scope import FAILURES


@asynccontextmanager
async def feeding(sending: Coroutine[Any, Any, None], abort: Callable[[], object]) -> AsyncIterator[None]:
    """Run `sending` concurrently with the block, and cancel it when the block exits.

    If `sending` fails, `abort` is called, and the original error replaces any error that the block raises as
    a result.
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
