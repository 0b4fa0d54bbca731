"""A stream of model code keeps its task and context, whoever reads and closes it."""

import asyncio
from contextvars import ContextVar

import pytest

from inferstream.concurrency.model_task import needs_task
from inferstream.dataplane.execution.stream_task import StreamTask

var: ContextVar[str] = ContextVar("var")


async def plain():
    yield 1


async def helped():
    plain()
    yield 1


async def asking():
    asyncio.current_task()
    yield 1


@pytest.mark.parametrize(("generator", "needs"), [(plain, False), (helped, True), (asking, True)])
def test_only_task_sensitive_generators_need_a_task(generator, needs):
    assert needs_task(generator.__code__) is needs


async def test_generator_is_closed_in_its_own_task_and_context():
    seen = []

    async def responses():
        token, task = var.set("mine"), asyncio.current_task()
        try:
            yield 1
        finally:
            var.reset(token)
            seen.append(task is asyncio.current_task())

    stream = StreamTask(responses())
    assert await anext(stream) == 1
    await asyncio.create_task(stream.aclose())
    assert seen == [True]


async def test_timeout_around_a_yield_expires_in_the_generator():
    async def responses():
        async with asyncio.timeout(0):
            yield 1
            await asyncio.sleep(60)

    stream = StreamTask(responses())
    assert await anext(stream) == 1
    with pytest.raises(TimeoutError):
        await anext(stream)
    assert asyncio.current_task().cancelling() == 0


async def test_generator_cancelling_its_task_does_not_cancel_the_reader():
    async def responses():
        yield 1
        asyncio.current_task().cancel()
        await asyncio.sleep(0)
        yield 2

    stream = StreamTask(responses())
    assert await anext(stream) == 1
    with pytest.raises(asyncio.CancelledError):
        await anext(stream)
    assert asyncio.current_task().cancelling() == 0
