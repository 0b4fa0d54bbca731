"""Tasks that run beside the rest."""

import asyncio
import gc
import weakref

from inferstream.concurrency.tasks import Tasks


async def test_unreferenced_task_runs_to_completion() -> None:
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
    await tasks.wait_for_all()
    assert len(tasks) == 0


async def test_join_waits_for_tasks_started_meanwhile() -> None:
    tasks, order = Tasks(), []

    async def second() -> None:
        for _ in range(9):
            await asyncio.sleep(0)
        order.append("second")

    async def first() -> None:
        tasks.start(second())
        order.append("first")

    tasks.start(first())
    await tasks.wait_for_all()
    assert order == ["first", "second"]


async def test_cancelled_tasks_are_joined() -> None:
    tasks = Tasks()
    going, staying = tasks.start(asyncio.sleep(0)), tasks.start(asyncio.Event().wait())
    await tasks.wait_for_one()
    assert (going.done(), staying.done(), len(tasks)) == (True, False, 1)
    tasks.cancel()
    await tasks.wait_for_all()
    assert staying.cancelled()
