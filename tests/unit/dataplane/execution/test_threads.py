"""Streams in the event loop of their model's own thread."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inferstream.concurrency.model_thread import ModelThread
from inferstream.context import RequestContext, enter
from inferstream.dataplane.execution import threads
from inferstream.dataplane.execution.threads import AHEAD, REST_AFTER, ModelThreadResponses
from tests.serving import eventually

CALL: Any = type("Call", (), {"model": "m", "request": type("Request", (), {"id": "7"})})


@pytest.fixture
async def thread() -> AsyncIterator[ModelThread]:
    made = ModelThread("model-m")
    yield made
    made.close()
    await asyncio.to_thread(made._thread.join, 5)


async def test_other_calls_run_between_items_of_a_nonwaiting_stream(thread: ModelThread) -> None:
    asked, ran = threading.Event(), []

    async def stream() -> AsyncIterator[int]:
        for number in range(AHEAD - 1):  # so few that it does not wait for its reader
            yield number
            asked.wait(5)
            time.sleep(2 * REST_AFTER)  # noqa: ASYNC251  # it computes for longer than it may keep the loop
            ran.append(number)

    enter(RequestContext())
    responses = ModelThreadResponses(thread, stream, CALL)
    assert await anext(responses) == 0
    call = asyncio.ensure_future(thread.call(ran.append, "call"))
    await asyncio.sleep(0)
    asked.set()
    assert [number async for number in responses] == [*range(1, AHEAD - 1)]
    await call
    assert ran.index("call") < AHEAD - 2


async def test_cleanup_errors_are_logged(thread: ModelThread, caplog: pytest.LogCaptureFixture) -> None:
    async def stream() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
                await asyncio.sleep(0)
        finally:
            raise ValueError("no cleanup")

    enter(RequestContext())
    responses = ModelThreadResponses(thread, stream, CALL)
    assert await anext(responses) == 1
    await responses.aclose()
    await asyncio.to_thread(eventually, lambda: "failed while cleaning up request 7" in caplog.text)


async def test_hung_cleanup_is_ended_and_logged(
    thread: ModelThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "CLOSE_LIMIT", 0.01)
    ended = threading.Event()

    async def stream() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

    enter(RequestContext())
    responses = ModelThreadResponses(thread, stream, CALL)
    assert await anext(responses) == 1
    await responses.aclose()
    assert await asyncio.to_thread(ended.wait, 5)
    await asyncio.to_thread(eventually, lambda: "cleanup of request 7 is still running" in caplog.text)
