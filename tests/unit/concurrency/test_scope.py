"""An interruption cancels a task until it ends, and keeps nothing of it."""

import asyncio
import gc
import weakref

import pytest

from inferstream.concurrency import scope
from inferstream.concurrency.scope import Interruption


class Payload:
    """What a task holds, such as a request."""


async def test_a_task_that_has_ended_is_not_kept() -> None:
    async def serve(payload: Payload) -> None:
        await asyncio.Event().wait()

    payload = Payload()
    kept = weakref.ref(payload)
    task = asyncio.create_task(serve(payload))
    del payload
    await asyncio.sleep(0)
    Interruption(task, lambda: True)
    await asyncio.wait([task])
    del task
    gc.collect()
    assert kept() is None


async def test_a_task_that_lingers_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "PATIENCE", 0.001)
    cancelled = 0

    async def lingers() -> None:
        nonlocal cancelled
        while cancelled < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled += 1

    task = asyncio.create_task(lingers())
    await asyncio.sleep(0)
    Interruption(task, lambda: True)
    await asyncio.wait_for(asyncio.wait([task]), 30)
    assert cancelled == 3


async def test_a_task_continues_after_its_cancels_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "PATIENCE", 0.001)
    cancelled = asyncio.Event()
    go = asyncio.Event()

    async def continues() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            interrupted.take_back()
            cancelled.set()
        await go.wait()
        return 1

    task = asyncio.create_task(continues())
    await asyncio.sleep(0)
    interrupted = Interruption(task, lambda: True)
    await cancelled.wait()
    await asyncio.sleep(0.01)
    assert not task.cancelling()
    go.set()
    assert await task == 1
