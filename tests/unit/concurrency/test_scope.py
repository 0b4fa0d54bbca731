"""A scope ends the work of a task for one reason, loses no cancel of others, and keeps nothing of it."""

import asyncio
import gc
import logging
import weakref
from collections.abc import Awaitable, Callable

import pytest

from inferstream.concurrency import scope as module
from inferstream.concurrency.scope import ClientLeft, Scope, is_own_cancel
from inferstream.errors import Cancelled, DeadlineExceeded, Draining

REASONS = (
    ClientLeft(),
    DeadlineExceeded(),
    Cancelled(),
    Draining(),
    Draining("Model m is being unloaded."),
)


class Payload:
    """What a task holds, such as a request."""


async def begun(work: Callable[[Scope], Awaitable[object]]) -> tuple[asyncio.Task[object], Scope]:
    """A task that does `work` in a scope, and waits in it."""
    scopes: list[Scope] = []

    async def run() -> object:
        task = asyncio.current_task()
        with Scope(task) as scope:
            scopes.append(scope)
            return await work(scope)

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    return task, scopes[0]


async def forever(_: object = None) -> None:
    await asyncio.Event().wait()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.001)


@pytest.mark.parametrize("reason", REASONS)
async def test_work_ends_with_the_reason(reason: Exception) -> None:
    task, scope = await begun(forever)
    scope.end(reason)
    with pytest.raises(type(reason)) as raised:
        await task
    assert raised.value is reason
    assert not task.cancelling()
    assert not task.cancelled()


async def test_uninterrupted_work_returns_its_result() -> None:
    async def work(_: Scope) -> int:
        return 1

    task, scope = await begun(work)
    assert await task == 1
    assert scope.reason is None


async def test_first_reason_wins() -> None:
    task, scope = await begun(forever)
    scope.end(first := Cancelled())
    scope.end(DeadlineExceeded())
    assert task.cancelling() == 1
    with pytest.raises(Cancelled) as raised:
        await task
    assert raised.value is first


async def test_external_cancellation_propagates() -> None:
    task, _ = await begun(forever)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


@pytest.mark.parametrize("first", ["end", "cancel"])
async def test_simultaneous_external_cancellation_is_not_lost(first: str) -> None:
    task, scope = await begun(forever)
    if first == "end":
        scope.end(DeadlineExceeded())
    task.cancel()
    scope.end(DeadlineExceeded())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert task.cancelling() == 1


async def test_external_cancellation_during_cleanup_is_not_lost() -> None:
    cleans = asyncio.Event()

    async def work(_: Scope) -> None:
        try:
            await forever()
        finally:
            cleans.set()
            await forever()

    task, scope = await begun(work)
    scope.end(DeadlineExceeded())
    await cleans.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_end_during_cleanup_after_external_cancellation_propagates_it() -> None:
    cleans = asyncio.Event()

    async def work(_: Scope) -> None:
        try:
            await forever()
        finally:
            cleans.set()
            await forever()

    task, scope = await begun(work)
    task.cancel()
    await cleans.wait()
    scope.end(DeadlineExceeded())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_end_in_finally_block_raises_the_reason() -> None:
    cleans = asyncio.Event()

    async def work(_: Scope) -> int:
        try:
            return 1
        finally:
            cleans.set()
            await forever()

    task, scope = await begun(work)
    await cleans.wait()
    scope.end(Draining())
    with pytest.raises(Draining):
        await task


async def test_timeout_around_an_ended_scope_still_expires() -> None:
    async def timed() -> None:
        async with asyncio.timeout(None) as limit:
            with Scope(asyncio.current_task()) as scope:
                loop = asyncio.get_running_loop()
                loop.call_soon(scope.end, Cancelled())
                limit.reschedule(loop.time())
                await forever()

    with pytest.raises((TimeoutError, Cancelled)) as raised:
        await timed()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    assert raised.type is TimeoutError


@pytest.mark.parametrize(("ended", "error"), [("inner", Cancelled), ("outer", DeadlineExceeded)])
async def test_nested_scopes_end_for_their_own_reasons(ended: str, error: type[Exception]) -> None:
    scopes: dict[str, Scope] = {}
    inner: list[str] = []

    async def work(outer: Scope) -> None:
        scopes["outer"] = outer
        try:
            with Scope(asyncio.current_task()) as scopes["inner"]:
                await forever()
        except BaseException as error:
            inner.append(type(error).__name__)
            raise

    task, _ = await begun(work)
    scopes[ended].end(error())
    with pytest.raises(error):
        await task
    assert inner == ["Cancelled" if ended == "inner" else "CancelledError"]
    assert not task.cancelling()


@pytest.mark.parametrize("order", [("inner", "outer"), ("outer", "inner")])
async def test_outer_reason_wins_if_nested_scopes_end_together(order: tuple[str, str]) -> None:
    scopes: dict[str, Scope] = {}

    async def work(outer: Scope) -> None:
        scopes["outer"] = outer
        with Scope(asyncio.current_task()) as scopes["inner"]:
            await forever()

    task, _ = await begun(work)
    for name in order:
        scopes[name].end(Cancelled() if name == "inner" else DeadlineExceeded())
    with pytest.raises(DeadlineExceeded):
        await task
    assert not task.cancelling()


async def test_outer_work_continues_after_inner_scope_ends() -> None:
    inner: list[Scope] = []

    async def work(_: Scope) -> int:
        try:
            with Scope(asyncio.current_task()) as scope:
                inner.append(scope)
                await forever()
        except Cancelled:
            await asyncio.sleep(0)
        return 1

    task, _ = await begun(work)
    inner[0].end(Cancelled())
    assert await task == 1


async def test_end_before_start_stops_the_work_at_its_first_await() -> None:
    async def run() -> None:
        scope = Scope(asyncio.current_task())
        scope.end(Draining())
        with scope:
            await forever()

    task = asyncio.create_task(run())
    with pytest.raises(Draining):
        await task
    assert not task.cancelling()


async def test_self_ended_work_leaves_no_cancellation() -> None:
    async def run() -> int:
        try:
            with Scope(asyncio.current_task()) as scope:
                scope.end(Draining())
        except Draining:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return 1
        return 0

    assert await asyncio.create_task(run()) == 1


async def test_end_after_the_work_cancels_nothing() -> None:
    task, scope = await begun(forever)
    scope.end(Cancelled())
    with pytest.raises(Cancelled):
        await task

    async def finishes(scope: Scope) -> None:
        with scope:
            pass
        ended.append(scope)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    ended: list[Scope] = []

    async def run() -> None:
        await finishes(Scope(asyncio.current_task()))

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    ended[0].end(Cancelled())
    await task


async def test_result_of_ended_work_is_discarded() -> None:
    async def swallows(_: Scope) -> int:
        try:
            await forever()
        except asyncio.CancelledError:
            pass
        return 1

    task, scope = await begun(swallows)
    scope.end(DeadlineExceeded())
    with pytest.raises(DeadlineExceeded):
        await task
    assert not task.cancelling()


async def test_work_error_propagates_and_leaves_no_cancellation() -> None:
    async def fails(_: Scope) -> None:
        try:
            await forever()
        finally:
            raise ValueError("own")

    task, scope = await begun(fails)
    scope.end(DeadlineExceeded())
    with pytest.raises(ValueError, match="own"):
        await task
    assert not task.cancelling()


async def test_spontaneous_cancelled_error_is_not_an_end() -> None:
    """Model code raises CancelledError of its own."""

    async def raises(_: Scope) -> None:
        raise asyncio.CancelledError

    task, scope = await begun(raises)
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    assert scope.reason is None
    assert not is_own_cancel(raised.value)


async def test_scope_without_a_task_keeps_the_reason() -> None:
    scope = Scope(None)
    scope.end(reason := Cancelled())
    scope.end(Draining())
    assert scope.over()
    assert scope.take_reason() is reason


async def test_ended_task_is_not_kept_alive() -> None:
    async def serve(payload: Payload) -> None:
        await forever()

    payload = Payload()
    kept = weakref.ref(payload)
    task = asyncio.create_task(serve(payload))
    del payload
    await asyncio.sleep(0)
    Scope(task).end(ClientLeft())
    await asyncio.wait([task])
    del task
    gc.collect()
    assert kept() is None


async def test_raised_reason_is_not_kept_alive() -> None:
    """Its traceback refers to frames that may hold a request."""

    async def run() -> "weakref.ref[Exception]":
        scope = Scope(asyncio.current_task())
        asyncio.get_running_loop().call_soon(scope.end, reason := Cancelled())
        kept = weakref.ref(reason)
        del reason
        try:
            with scope:
                await forever()
        except Cancelled:
            return kept
        raise AssertionError("it was not ended")

    gc.disable()
    try:
        kept = await run()
        assert kept() is None
    finally:
        gc.enable()


@pytest.mark.usefixtures("impatient")
async def test_task_ignoring_cancellation_is_cancelled_again(caplog: pytest.LogCaptureFixture) -> None:
    cancelled = 0

    async def lingers() -> None:
        nonlocal cancelled
        while cancelled < 3:
            try:
                await forever()
            except asyncio.CancelledError:
                cancelled += 1

    task = asyncio.create_task(lingers())
    await asyncio.sleep(0)
    Scope(task).end(ClientLeft())
    with caplog.at_level(logging.ERROR):
        await asyncio.wait_for(asyncio.wait([task]), 30)
    assert cancelled == 3
    assert [record.getMessage()[:27] for record in caplog.records] == ["model code is still running"] * 2


@pytest.mark.usefixtures("impatient")
async def test_repeated_cancellations_are_all_uncancelled() -> None:
    async def lingers(_: Scope) -> None:
        for _ in range(3):
            try:
                await forever()
            except asyncio.CancelledError:
                pass
        await forever()

    task, scope = await begun(lingers)
    scope.end(DeadlineExceeded())
    with pytest.raises(DeadlineExceeded):
        await asyncio.wait_for(task, 30)
    assert not task.cancelling()


@pytest.mark.usefixtures("impatient")
async def test_task_continues_after_its_scope() -> None:
    over = asyncio.Event()
    go = asyncio.Event()

    async def continues() -> int:
        with pytest.raises(Cancelled):
            with scope:
                await forever()
        over.set()
        await go.wait()
        return 1

    task = asyncio.create_task(continues())
    scope = Scope(task)
    await asyncio.sleep(0)
    scope.end(Cancelled())
    await over.wait()
    await asyncio.sleep(0.01)
    assert not task.cancelling()
    go.set()
    assert await task == 1
