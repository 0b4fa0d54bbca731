"""Blocking code of a model in threads: arguments, context, errors, and who has left."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from inferstream.concurrency.threads import Threads
from inferstream.context import RequestContext, enter

variable: ContextVar[str] = ContextVar("variable")


async def test_call_has_its_arguments_and_context() -> None:
    enter(RequestContext())
    variable.set("here")

    def called(self: int, function: int, *, named: int) -> tuple[object, ...]:
        return self, function, named, variable.get(), threading.current_thread().name

    assert await Threads("m", 1).run(called, 1, function=2, named=3) == (1, 2, 3, "here", "model-m_0")


async def test_stop_iteration_is_an_error() -> None:
    enter(RequestContext())
    with pytest.raises(RuntimeError, match="__next__ raised StopIteration"):
        await Threads("m", 1).run(iter(()).__next__)


async def test_running_code_can_detect_client_disconnect() -> None:
    context, begun, go_on = RequestContext(), threading.Event(), threading.Event()
    enter(context)

    def wait() -> None:
        begun.set()
        go_on.wait(10)

    running = asyncio.ensure_future(Threads("m", 1).run(wait))
    await asyncio.to_thread(begun.wait, 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert context.cancelled
    go_on.set()
