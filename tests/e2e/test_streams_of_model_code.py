"""Tasks, contexts and ends of generators, as function and class, in the server and in a worker.

A generator runs, and is closed, in one task and context. However it ends, its client gets the right end.
The tables have every pair of kind, place and transport.
"""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.doors import DOORS, Asked, Failed
from tests.contract.hosts import Direct
from tests.pairs import pairwise
from tests.serving import eventually, started_once, write_model

HEAD = """
import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from contextvars import ContextVar

import anyio

from inferstream import App, Depends, MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceResponse

var = ContextVar("var", default="unset")


def note(line):
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(line + "\\n")


def cancel_this_task():
    asyncio.current_task().cancel()


async def fail():
    raise ValueError("a task failed")


async def leave():
    sys.exit(3)


async def dependency() -> int:
    return 1
"""
CLASS = """
class Kind(MLModel):
    def item(self, text):
        output = StringCodec.encode_output("text", [text])
        return InferenceResponse(model_name=self.name, outputs=[output])
"""

ENDS = {
    "plain": (["1", "2"], None),
    "variable": (["1", "2"], None),
    "lock": (["1", "2"], None),
    "exit-in-task": (["1", "2"], None),
    "move-on": (["1"], None),
    "timeout": (["1"], "internal"),
    "anyio-timeout": (["1"], "internal"),
    "task-group": (["1"], "internal"),
    "cancels": (["1"], "internal"),
    "cancels-in-helper": (["1"], "internal"),
    "cancels-later": (["1"], "internal"),
    "raises-cancel": (["1"], "internal"),
    "generator-exit": (["1"], "internal"),
    "exits": (["1"], "internal"),
    "interrupts": (["1"], "internal"),
}
"""The items of each kind, and the error that ends its stream."""

BODIES = {
    "plain": """
        yield item("1")
        await asyncio.sleep(0)
        yield item("2")
    """,
    "variable": """
        token = var.set("mine")
        yield item("1")
        yield item("2")
        var.reset(token)
    """,
    "lock": """
        lock, condition = anyio.Lock(), anyio.Condition()
        async with lock, condition, anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0)
            yield item("1")
            assert anyio.get_current_task().id == id(asyncio.current_task())
            await anyio.to_thread.run_sync(print)
            yield item("2")
    """,
    "exit-in-task": """
        yield item("1")
        task = asyncio.create_task(leave())
        await asyncio.sleep(0.01)
        yield item("2")
    """,
    "move-on": """
        with anyio.move_on_after(0.05):
            yield item("1")
            await anyio.sleep(30)
    """,
    "timeout": """
        async with asyncio.timeout(0.05):
            yield item("1")
            await asyncio.sleep(30)
    """,
    "anyio-timeout": """
        with anyio.fail_after(0.05):
            yield item("1")
            await anyio.sleep(30)
    """,
    "task-group": """
        async with asyncio.TaskGroup() as group:
            yield item("1")
            group.create_task(fail())
            await asyncio.sleep(30)
    """,
    "cancels": """
        yield item("1")
        asyncio.current_task().cancel()
        await asyncio.sleep(0)
    """,
    "cancels-in-helper": """
        yield item("1")
        cancel_this_task()
        await asyncio.sleep(0)
    """,
    "cancels-later": """
        asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)
        yield item("1")
        await asyncio.sleep(30)
    """,
    "raises-cancel": """
        yield item("1")
        raise asyncio.CancelledError
    """,
    "generator-exit": """
        yield item("1")
        raise GeneratorExit
    """,
    "exits": """
        yield item("1")
        sys.exit(3)
    """,
    "interrupts": """
        yield item("1")
        raise KeyboardInterrupt
    """,
    "slow-timeout": """
        async with asyncio.timeout(0.1):
            while True:
                yield item("1")
                await asyncio.sleep(0)
    """,
    "slow-move-on": """
        with anyio.move_on_after(0.1):
            while True:
                yield item("1")
                await anyio.sleep(0)
    """,
    "leave-variable": """
        token = var.set("mine")
        try:
            while True:
                note("yields leave-variable")
                yield item("x" * 700_000)
        finally:
            await asyncio.sleep(0)
            with contextlib.suppress(ValueError):
                var.reset(token)
                note("closed leave-variable")
    """,
    "leave-scope": """
        task = asyncio.current_task()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 30)
                while True:
                    note("yields leave-scope")
                    yield item("x" * 700_000)
        except BaseException as error:
            if isinstance(error, RuntimeError):
                note(str(error))
            raise
        finally:
            if task is asyncio.current_task():
                note("closed leave-scope")
    """,
}

FUNCTIONS = {"function": "text: str", "checked": "text: str, one: int = Depends(dependency)"}
CLASSES = {"class": "own", "class-on-server": "server"}
SLOW = {"slow-timeout": "internal", "slow-move-on": None}
LEAVES = [kind for kind in BODIES if kind.startswith("leave")]


CALLS = {
    "cancels": "cancel_this_task()\nawait asyncio.sleep(0)",
    "cancels-later": "asyncio.get_running_loop().call_later(0.05, asyncio.current_task().cancel)\nawait asyncio.sleep(30)",
    "raises-cancel": "raise asyncio.CancelledError",
    "generator-exit": "raise GeneratorExit",
    "exits": "sys.exit(3)",
    "interrupts": "raise KeyboardInterrupt",
    "timeout": "async with asyncio.timeout(0.05):\n    await asyncio.sleep(30)",
}
"""Calls that fail."""


def _name(kind: str) -> str:
    return kind.title().replace("-", "")


def _write_functions(root) -> Path:
    app = [HEAD, "app = App()\n\n\ndef item(text):\n    return text\n"]
    for way, parameters in FUNCTIONS.items():
        for kind, body in BODIES.items():
            code = textwrap.indent(textwrap.dedent(body), "    ")
            name = _name(f"{way}-{kind}")
            app.append(
                f"@app.model('{way}-{kind}')\nasync def {name}({parameters}) -> AsyncIterator[str]:{code}"
            )
        for kind, body in CALLS.items():
            code = textwrap.indent(body, "    ")
            name = _name(f"{way}-call-{kind}")
            app.append(f"@app.model('{way}-call-{kind}')\nasync def {name}({parameters}) -> str:\n{code}")
    (root / "app.py").write_text("\n\n".join(app))
    return root / "app.py"


def _write_classes(root) -> Path:
    classes = [HEAD, CLASS]
    for kind, body in BODIES.items():
        code = textwrap.indent(textwrap.dedent(body), "        ").replace("item(", "self.item(")
        start = "        await anext(payloads)"
        classes.append(
            f"class {_name(kind)}(Kind):\n    async def predict_stream(self, payloads):\n{start}{code}"
        )
    for kind, body in CALLS.items():
        code = textwrap.indent(body, "        ")
        classes.append(f"class {_name('call-' + kind)}(Kind):\n    async def predict(self, payload):\n{code}")
    for way, loop in CLASSES.items():
        for kind in [*BODIES, *(f"call-{kind}" for kind in CALLS)]:
            name = f"{way}-{kind}"
            write_model(
                root / "models", name, f"kinds.{_name(kind)}", "\n\n".join(classes), name=name, loop=loop
            )
    return root / "models"


PLACES = [f"{way} in the {where}" for way in (*FUNCTIONS, *CLASSES) for where in ("server", "worker")]
"""How a model is written and where it runs, which decide together how its task ends."""


@pytest.fixture(scope="module")
def server_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Direct]]:
    """The server of a place."""

    def start(kind: tuple[bool, str]) -> Direct:
        write = _write_functions if kind[0] else _write_classes
        return Direct(write(tmp_path_factory.mktemp("streams")), INFERSTREAM_PARALLEL_WORKERS=kind[1])

    with started_once(start) as servers:
        yield lambda place: servers((_way(place) in FUNCTIONS, "1" if place.endswith("worker") else "0"))


def _way(place: str) -> str:
    return place.partition(" in ")[0]


@pytest.mark.parametrize(("kind", "place", "door"), pairwise(list(ENDS), PLACES, list(DOORS)))
def test_stream_ends_with_its_generator(server_of, kind, place, door):
    items: list[str] = []
    ended = None
    try:
        for each in DOORS[door].stream(server_of(place), Asked(f"{_way(place)}-{kind}", "r1", {})):
            items.append(each)
    except Failed as failed:
        ended = failed.code or "internal"
    assert (items, ended) == ENDS[kind]


@pytest.mark.parametrize(("kind", "place", "door"), pairwise(list(SLOW), PLACES, list(DOORS)))
def test_scope_expires_at_yield_with_slow_reader(server_of, kind, place, door):
    asked = Asked(f"{_way(place)}-{kind}", "r1", {"items_per_second": 240.0})
    ended = None
    try:
        assert next(stream := DOORS[door].stream(server_of(place), asked)) == "1"
        assert {*stream} <= {"1"}
    except Failed as failed:
        ended = failed.code or "internal"
    assert ended == SLOW[kind]


@pytest.mark.parametrize(("kind", "place", "door"), pairwise(list(CALLS), PLACES, list(DOORS)))
def test_abnormal_exit_fails_call(server_of, kind, place, door):
    with pytest.raises(Failed) as failed:
        DOORS[door].single(server_of(place), Asked(f"{_way(place)}-call-{kind}", "r1", {}))
    assert failed.value.code in ("internal", None)


@pytest.mark.parametrize(("kind", "place", "door"), pairwise(LEAVES, PLACES, list(DOORS)))
def test_disconnect_closes_generator_at_yield(server_of, kind, place, door):
    server = server_of(place)
    server.log.write_text("")
    stream = DOORS[door].stream(server, Asked(f"{_way(place)}-{kind}", "r1", {}))
    next(stream)
    eventually(lambda: server.noted("yields"))
    stream.close()
    eventually(lambda: f"closed {kind}\n" in server.log.read_text())


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(("write", "ways"), [(_write_functions, FUNCTIONS), (_write_classes, CLASSES)])
def test_shutdown_closes_generators_at_yield(tmp_path, workers, write, ways):
    options = {"INFERSTREAM_PARALLEL_WORKERS": str(workers), "INFERSTREAM_SHUTDOWN_GRACE": "0.1"}
    rows = pairwise(list(DOORS), list(ways), LEAVES)
    server = Direct(write(tmp_path), **options)
    try:
        streams = [DOORS[door].stream(server, Asked(f"{way}-{kind}", "r1", {})) for door, way, kind in rows]
        for stream in streams:
            next(stream)
        server.begin_stop()
    finally:
        assert server.stop() == 0, server.text()
    for kind in LEAVES:
        assert server.log.read_text().count(f"closed {kind}\n") == sum(row[2] == kind for row in rows)
