"""A model's own thread: calls run in it one after another, and end for their callers in every case."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import ContextVar

import pytest

from inferstream.concurrency.model_thread import Crossing, ModelThread
from inferstream.context import RequestContext

caller: ContextVar[str] = ContextVar("caller", default="nobody")


@pytest.fixture
async def thread() -> AsyncIterator[ModelThread]:
    thread = ModelThread("model-m")
    yield thread
    thread.close()


async def where(value: object = None) -> tuple[str, object]:
    return threading.current_thread().name, value


async def test_coroutine_runs_in_the_thread_and_returns_its_value(thread: ModelThread) -> None:
    assert await thread.call(where, 7) == ("model-m", 7)
    assert thread.calls == 0


async def test_sync_function_runs_in_the_thread(thread: ModelThread) -> None:
    assert await thread.call(threading.get_ident) != threading.get_ident()


async def test_call_has_the_caller_context(thread: ModelThread) -> None:
    async def look() -> str:
        return caller.get()

    caller.set("me")
    assert await thread.call(look) == "me"


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), asyncio.CancelledError()])
async def test_call_exception_reaches_the_caller(thread: ModelThread, error: BaseException) -> None:
    async def fails() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await thread.call(fails)
    assert caught.value is error
    assert await thread.call(where) == ("model-m", None)


async def test_thread_has_its_own_event_loop(thread: ModelThread) -> None:
    background = []

    async def later() -> None:
        await asyncio.sleep(0)
        background.append(threading.current_thread().name)

    async def starts_a_task() -> asyncio.AbstractEventLoop:
        task = asyncio.create_task(later())
        async with asyncio.timeout(5):
            await asyncio.sleep(0.001)
            await task
        return asyncio.get_running_loop()

    assert await thread.call(starts_a_task) is thread.loop is not asyncio.get_running_loop()
    assert background[0] == "model-m"


async def test_sync_calls_run_sequentially(thread: ModelThread) -> None:
    inside = threading.Semaphore(1)
    release = threading.Event()

    async def alone() -> bool:
        taken = inside.acquire(blocking=False)
        release.wait(5)
        inside.release()
        return taken

    calls = [asyncio.ensure_future(thread.call(alone)) for _ in range(3)]
    await asyncio.sleep(0)
    release.set()
    assert await asyncio.gather(*calls) == [True] * 3


async def test_call_cancelled_before_start_never_runs(thread: ModelThread) -> None:
    began: list[int] = []
    release = threading.Event()
    first = asyncio.ensure_future(thread.call(release.wait, 5))
    second = asyncio.ensure_future(thread.call(began.append, 2))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    await first
    assert (await thread.call(where))[0] == "model-m"
    assert began == []
    assert thread.calls == 0


async def test_cancelled_blocking_call_returns_to_its_caller_immediately(
    thread: ModelThread,
) -> None:
    began, release = threading.Event(), threading.Event()

    def blocks() -> None:
        began.set()
        release.wait(5)

    request = RequestContext()
    call = asyncio.ensure_future(thread.call(blocks, request=request))
    await asyncio.to_thread(began.wait, 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert request.cancelled
    assert request.thread is not None
    assert not request.thread.done()
    assert thread.calls == 1
    over, late = threading.Event(), threading.Event()
    request.thread.add_done_callback(lambda _: over.set())
    release.set()
    assert await asyncio.to_thread(over.wait, 5)
    assert request.thread.done()
    request.thread.add_done_callback(lambda _: late.set())
    assert late.is_set(), "a callback that comes after the end is called at once"
    assert (await thread.call(where))[0] == "model-m"
    assert thread.calls == 0


async def test_awaiting_call_is_cancelled_in_the_thread(thread: ModelThread) -> None:
    began, ended = threading.Event(), threading.Event()

    async def waits() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    call = asyncio.ensure_future(thread.call(waits))
    await asyncio.to_thread(began.wait, 5)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(ended.wait, 5)


async def test_model_task_calling_exit_does_not_end_the_thread(
    thread: ModelThread, caplog: pytest.LogCaptureFixture
) -> None:
    async def exits() -> None:
        raise SystemExit(3)

    async def starts_a_task() -> None:
        asyncio.create_task(exits())  # noqa: RUF006

    await thread.call(starts_a_task)
    assert (await thread.call(where))[0] == "model-m"
    assert "SystemExit" in caplog.text


async def test_ending_thread_leaves_no_waiter() -> None:
    thread = ModelThread("model-m")
    release, began = threading.Event(), threading.Event()

    def blocks() -> None:
        began.set()
        release.wait(5)

    calls = [asyncio.ensure_future(thread.call(function)) for function in (blocks, where, where)]
    assert await asyncio.to_thread(began.wait, 5)
    thread.close()
    release.set()
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert ended[0] is None
    assert all(isinstance(end, (tuple, RuntimeError, asyncio.CancelledError)) for end in ended[1:])
    assert thread.calls == 0


async def test_ended_thread_refuses_calls() -> None:
    thread = ModelThread("model-m")
    thread.close()
    await asyncio.to_thread(thread._thread.join, 5)
    with pytest.raises(RuntimeError, match="the model's thread has ended"):
        await thread.call(where)
    assert thread.calls == 0


async def test_closing_ends_the_thread_and_its_tasks() -> None:
    thread = ModelThread("model-m")
    ended = threading.Event()

    async def background() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    kept = []

    async def starts_a_task() -> None:
        kept.append(asyncio.create_task(background()))
        await asyncio.sleep(0)

    await thread.call(starts_a_task)
    thread.close()
    await asyncio.to_thread(thread._thread.join, 5)
    assert not thread._thread.is_alive()
    assert ended.is_set()
    thread.close()  # a second time changes nothing


async def test_thread_ends_cleanly_after_model_replaced_loop_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    thread = ModelThread("model-m")
    await thread.call(where)
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    try:
        thread.close()
        await asyncio.to_thread(thread._thread.join, 5)
    finally:
        asyncio.set_event_loop_policy(before)
    assert [str(each.exc_value) for each in failed] == []


async def test_ready_callbacks_share_one_wakeup(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    wakes, seen = [], []
    monkeypatch.setattr(Crossing, "_run", lambda self, run=Crossing._run: (wakes.append(1), run(self)))
    crossing = Crossing(loop)

    def send() -> None:
        for number in range(50):
            crossing.send(lambda number=number: seen.append(number))

    send()  # this loop cannot wake meanwhile
    await asyncio.sleep(0.01)
    assert (seen, len(wakes)) == ([*range(50)], 1)
    await asyncio.to_thread(send)
    while len(seen) < 100:
        await asyncio.sleep(0)
    assert seen == [*range(50)] * 2


async def test_call_detects_whether_it_awaited(thread: ModelThread) -> None:
    ran: list[float | None] = []
    await thread.call(where, ran=ran.append)
    await thread.call(asyncio.sleep, 0, ran=ran.append)
    await thread.call(where)
    assert [seconds is None for seconds in ran] == [False, True]


async def test_code_ignoring_cancellation_is_cancelled_again(
    thread: ModelThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferstream.concurrency.scope.PATIENCE", 0.01)
    began, ended = threading.Event(), threading.Event()

    async def stubborn() -> None:
        began.set()
        for _ in range(2):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        ended.set()

    waiting = asyncio.ensure_future(thread.call(stubborn))
    assert await asyncio.to_thread(began.wait, 5)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.to_thread(ended.wait, 5)


async def test_closed_loop_raises_for_every_sender() -> None:
    loop = asyncio.new_event_loop()
    crossing = Crossing(loop)
    loop.close()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            crossing.send(print)
