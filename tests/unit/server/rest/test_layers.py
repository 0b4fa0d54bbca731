"""What is made by the first request, in a thread."""

import asyncio
import threading
from typing import Any

import pytest

from inferstream.server.rest.layers import LazyApp


class Slow:
    """Builds an application when it is let to, and counts how often."""

    def __init__(self) -> None:
        self.built = 0
        self.thread: threading.Thread | None = None
        self.gate = threading.Event()

    def __call__(self) -> Any:
        self.gate.wait(10)
        self.built += 1
        self.thread = threading.current_thread()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send(scope["path"])

        return app


async def ask(app: LazyApp, path: str, sent: list[str]) -> None:
    async def send(message: Any) -> None:
        sent.append(message)

    await app({"path": path}, None, send)


async def test_requests_wait_for_one_application_and_the_loop_does_not() -> None:
    slow, sent = Slow(), []
    app = LazyApp(slow)
    asking = [asyncio.create_task(ask(app, path, sent)) for path in "ab"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sent == []
    slow.gate.set()
    await asyncio.gather(*asking)
    await ask(app, "c", sent)
    assert sent == ["a", "b", "c"]
    assert slow.built == 1
    assert slow.thread is not threading.main_thread()


async def test_a_client_that_leaves_meanwhile_takes_nothing_from_the_others() -> None:
    slow, sent = Slow(), []
    app = LazyApp(slow)
    first, second = (asyncio.create_task(ask(app, path, sent)) for path in "ab")
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    slow.gate.set()
    await second
    assert sent == ["b"]
    assert slow.built == 1


async def test_what_cannot_be_built_is_tried_again_by_the_next_request() -> None:
    slow, sent = Slow(), []
    slow.gate.set()
    failures = [OSError("no more files")]

    def build() -> Any:
        if failures:
            raise failures.pop()
        return slow()

    app = LazyApp(build)
    with pytest.raises(OSError, match="no more files"):
        await ask(app, "a", sent)
    await ask(app, "b", sent)
    assert sent == ["b"]
