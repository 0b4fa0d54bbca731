"""A call in progress can be ended from outside while it opens, and so can other work of a model."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.reply import Reply, StreamReply
from inferstream.dataplane.stages.live import Live
from inferstream.errors import Cancelled, DeadlineExceeded, Draining
from inferstream.types import InferenceRequest, InferenceResponse

RESPONSE = InferenceResponse(model_name="m", outputs=[])


def call() -> Call:
    return Call(Operation.STREAM, "m", None, InferenceRequest(inputs=[]), {})


async def forever(_: Call) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError


async def opening(live: Live, opened: Call) -> asyncio.Task[Reply]:
    async def open() -> Reply:
        return await live(opened)

    task = asyncio.create_task(open())
    await asyncio.sleep(0)
    assert live.calls == {opened}
    return task


async def test_a_call_that_opens_ends_with_the_reason() -> None:
    live, opened = Live(forever), call()
    task = await opening(live, opened)
    opened.end(DeadlineExceeded())
    opened.end(Draining())
    with pytest.raises(DeadlineExceeded):
        await task
    assert opened.expired
    assert not task.cancelling()
    assert not live.calls


async def test_a_cancel_of_its_task_at_the_same_moment_is_not_lost() -> None:
    live, opened = Live(forever), call()
    task = await opening(live, opened)
    opened.end(DeadlineExceeded())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not live.calls


async def test_a_stream_that_opens_in_spite_of_its_end_is_closed() -> None:
    closed = False

    async def rest() -> AsyncIterator[InferenceResponse]:
        nonlocal closed
        try:
            while True:
                yield RESPONSE
        finally:
            closed = True

    async def swallows(_: Call) -> Reply:
        responses = rest()
        first = await anext(responses)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return StreamReply(first, responses)

    live, opened = Live(swallows), call()
    task = await opening(live, opened)
    opened.end(Cancelled())
    with pytest.raises(Cancelled):
        await task
    assert closed
    assert not task.cancelling()
    assert not live.calls


async def test_an_end_before_the_call_reaches_the_stage_is_kept() -> None:
    async def answers(_: Call) -> Reply:
        return Reply(RESPONSE)

    opened = call()
    opened.end(Cancelled())
    with pytest.raises(Cancelled):
        await Live(answers)(opened)


async def test_other_work_ends_with_the_reason_too() -> None:
    live = Live(forever)
    task = asyncio.create_task(live.run(asyncio.Event().wait()))
    await asyncio.sleep(0)
    live.fail(Draining())
    with pytest.raises(Draining):
        await task
    assert not task.cancelling()
    assert not live.calls
