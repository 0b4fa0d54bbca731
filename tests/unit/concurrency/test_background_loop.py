"""Coroutines run in a thread, for code without an event loop."""

import asyncio
import threading

import pytest

from inferstream.concurrency.background_loop import BackgroundLoop


async def name() -> str:
    return threading.current_thread().name


def test_thread_starts_with_first_coroutine_and_ends_on_close() -> None:
    loop = BackgroundLoop("tried")
    assert "tried" not in [thread.name for thread in threading.enumerate()]
    assert loop.run(name()) == "tried"
    loop.close()
    assert "tried" not in [thread.name for thread in threading.enumerate()]
    assert loop.run(name()) == "tried"  # another one
    loop.close()
    loop.close()


def test_keyboard_interrupt_cancels_the_coroutine(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = BackgroundLoop("tried")
    begun, cancelled = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    class Interrupted:
        def __init__(self, future) -> None:
            self.cancel = future.cancel

        def result(self) -> None:
            assert begun.wait(20)
            raise KeyboardInterrupt

    start = loop.start
    monkeypatch.setattr(loop, "start", lambda coroutine: Interrupted(start(coroutine)))
    with pytest.raises(KeyboardInterrupt):
        loop.run(wait())
    assert cancelled.wait(20)
    loop.close()
