"""Tasks that run beside the rest."""

import asyncio
import gc
import weakref

from inferstream.concurrency.tasks import Tasks


async def test_a_task_that_nobody_else_holds_runs_to_its_end() -> None:
    tasks, known = Tasks(), []

    async def wait_for_what_it_alone_holds() -> None:
        wanted = asyncio.get_running_loop().create_future()
        known.append(weakref.ref(wanted))
        await wanted

    tasks.start(wait_for_what_it_alone_holds())
    await asyncio.sleep(0)
    gc.collect()
    assert len(tasks) == 1
    known[0]().set_result(None)
    await tasks.all_ended()
    assert len(tasks) == 0


async def test_all_have_ended_only_when_those_have_that_started_meanwhile() -> None:
    tasks, order = Tasks(), []

    async def second() -> None:
        for _ in range(9):
            await asyncio.sleep(0)
        order.append("second")

    async def first() -> None:
        tasks.start(second())
        order.append("first")

    tasks.start(first())
    await tasks.all_ended()
    assert order == ["first", "second"]


async def test_those_that_are_cancelled_end_too() -> None:
    tasks = Tasks()
    going, staying = tasks.start(asyncio.sleep(0)), tasks.start(asyncio.Event().wait())
    await tasks.one_ended()
    assert (going.done(), staying.done(), len(tasks)) == (True, False, 1)
    tasks.cancel()
    await tasks.all_ended()
    assert staying.cancelled()
