"""Waiting to be woken."""

import asyncio

import pytest

from inferstream.concurrency.wakeup import Wakeup


async def test_one_who_waits_goes_on_when_woken() -> None:
    wakeup = Wakeup()
    waiting = wakeup.wait()
    assert not waiting.done()
    wakeup.wake()
    wakeup.wake()
    await waiting


async def test_a_wake_up_that_nobody_waits_for_is_lost() -> None:
    wakeup = Wakeup()
    wakeup.wake()
    assert not wakeup.wait().done()


async def test_one_who_was_cancelled_while_waiting_can_wait_again() -> None:
    wakeup = Wakeup()
    waiting = wakeup.wait()
    waiting.cancel()
    wakeup.wake()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    again = wakeup.wait()
    wakeup.wake()
    await again
