"""Load and unload hooks of an app: once for all its models, in order, also when one fails."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from inferstream import App, testing
from inferstream.errors import ModelLoadFailed
from inferstream.functions.hooks import Hooks


def app_of(said: list[str], models: int = 3) -> App:
    app = App()

    @app.on_load
    async def first() -> None:
        await asyncio.sleep(0)
        said.append("load 1")

    @app.on_load
    def second() -> None:
        said.append("load 2")
        app.state.ready = "yes"

    @app.on_unload
    def third() -> None:
        said.append("unload 1")

    @app.on_unload
    async def fourth() -> None:
        said.append("unload 2")

    for index in range(models):

        def model() -> str:
            return str(app.state.ready)

        app.model(f"m{index}")(model)
    return app


async def test_hooks_run_once_before_the_first_model_and_after_the_last() -> None:
    said: list[str] = []
    async with testing.run(app_of(said)) as client:
        assert said == ["load 1", "load 2"]
        assert (await client.infer("m2")).outputs[0].data.root == ["yes"]
        await client.application.load("m1")
        await client.application.unload("m0")
        assert said == ["load 1", "load 2"]
    assert said == ["load 1", "load 2", "unload 2", "unload 1"]


async def test_failing_hook_fails_every_model() -> None:
    app, ran = App(), []

    @app.on_load
    def fails() -> None:
        ran.append(1)
        raise OSError("no database")

    for name in ("a", "b", "c"):
        app.model(name)(lambda_of(name))
    async with testing.run(app, strict=False) as client:
        index = await client.application.index()
        assert [item.state for item in index] == ["UNAVAILABLE"] * 3
        assert all("OSError: no database" in item.reason for item in index)
        before = len(ran)
        with pytest.raises(ModelLoadFailed):
            await client.application.load("a")
        assert len(ran) == before + 1


def lambda_of(name: str):  # type: ignore[no-untyped-def]
    def model() -> str:
        return name

    return model


async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


def one() -> int:
    return 1


def stop() -> None:
    raise StopIteration


async def exit_async() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("hook", [stop, cancel_itself, exit_async])
async def test_hook_ends_only_its_own_app(hook: Callable[[], Any]) -> None:
    app = App()
    app.on_load(hook)
    app.model("m")(one)
    async with asyncio.timeout(20):
        with pytest.raises(ModelLoadFailed, match="m"):
            async with testing.run(app):
                pass
    current = asyncio.current_task()
    assert current is not None
    assert not current.cancelling()


@pytest.mark.parametrize("hook", [stop, cancel_itself, exit_async])
async def test_every_unload_hook_runs_if_another_raises(hook: Callable[[], Any]) -> None:
    app, ran = App(), []
    app.on_unload(lambda: ran.append(1))
    app.on_unload(hook)
    app.model("m")(one)
    async with asyncio.timeout(20), testing.run(app):
        pass
    assert ran == [1]


async def test_hooks_run_on_the_server_loop() -> None:
    """A function that blocks has a thread of its own; what a hook makes serves the other functions too."""
    app, threads = App(), []

    @app.on_load
    async def connect() -> None:
        threads.append(threading.current_thread())
        app.state.lock = asyncio.Lock()

    @app.model
    async def blocks(n: int) -> int:
        app.state.n = n
        return n

    @app.model
    async def awaits() -> AsyncIterator[str]:
        async with app.state.lock:
            await asyncio.sleep(0)
            yield "a"

    alone = App()
    alone.on_load(connect)
    alone.model(blocks)
    async with testing.run(alone):
        assert threads == [threading.current_thread()]
    async with testing.run(app) as client:
        assert threads == [threading.current_thread()] * 2
        assert len([item async for item in client.stream("awaits")]) == 1
        await client.infer("blocks", n=1)


async def test_cancelled_waiter_does_not_affect_the_first() -> None:
    hooks, go = Hooks(), asyncio.Event()
    hooks.load.append(go.wait)
    first = asyncio.create_task(hooks.enter())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(hooks.enter())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    await first


async def test_cancelled_hook_fails_waiters_and_the_next_retries() -> None:
    hooks, go = Hooks(), asyncio.Event()
    hooks.load.append(go.wait)
    first = asyncio.create_task(hooks.enter())
    await asyncio.sleep(0)
    waiting = asyncio.create_task(hooks.enter())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(RuntimeError, match="cancelled"):
        await waiting
    go.set()
    await hooks.enter()


async def test_new_load_waits_for_every_unload_hook() -> None:
    hooks, said, go = Hooks(), [], asyncio.Event()

    async def slow() -> None:
        await go.wait()
        said.append("unloaded")

    def fails() -> None:
        said.append("failed")
        raise ValueError("x")

    hooks.load.append(lambda: said.append("loaded"))
    hooks.unload += [slow, fails]
    await hooks.enter()
    leaving = asyncio.create_task(hooks.leave())
    await asyncio.sleep(0)
    entering = asyncio.create_task(hooks.enter())
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(ValueError, match="x"):
        await leaving
    await entering
    assert said == ["loaded", "failed", "unloaded", "loaded"]
