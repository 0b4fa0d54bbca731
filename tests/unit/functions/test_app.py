"""Apps: their models, and what they are served in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from inferstream import App, Application, MLModel, testing
from inferstream.errors import InvalidSettings


class Strange:
    """A type that cannot be sent."""


def number(x: int) -> list[int]:
    return [x]


def total(xs: list[int]) -> int:
    return sum(xs)


def test_duplicate_names_duplicate_rpcs_and_unknown_settings_are_refused() -> None:
    app = App()
    app.model("first-model")(number)
    with pytest.raises(
        InvalidSettings, match=r'function total: a model "first-model" is there already: .* number'
    ):
        app.model("first-model")(total)
    app.model("first-model", version="2")(total)
    with pytest.raises(InvalidSettings, match="would share the RPC PredictFirstModel"):
        app.model("first_model")(total)
    with pytest.raises(InvalidSettings, match='field "max_qeue" is unknown; did you mean "max_queue"'):
        app.model("other", max_qeue=3)(total)
    for thing in (Strange, Strange(), 3):
        with pytest.raises(InvalidSettings, match="is not a function"):
            app.model(thing)  # type: ignore[call-overload]
    with pytest.raises(
        InvalidSettings,
        match=r"test_app\.py, line \d+, class Strange is not a function; hint: decorate a function, or write",
    ):
        app.model(Strange)


def test_invalid_middleware_and_hooks_are_named() -> None:
    app = App()

    def blocking(call: Any, call_next: Any) -> Any:
        return call_next(call)

    def needy(state: Any) -> None: ...

    async def lifespan() -> AsyncIterator[None]:
        yield

    with pytest.raises(InvalidSettings, match=r"test_app\.py, line \d+, function .*blocking: a middl"):
        app.middleware(blocking)
    for mark in (app.on_load, app.on_unload):
        with pytest.raises(InvalidSettings, match=r"function .*needy: a hook takes no arguments: .*'state'"):
            mark(needy)
        with pytest.raises(InvalidSettings, match=r"function .*lifespan: a hook does not yield"):
            mark(lifespan)
        with pytest.raises(InvalidSettings, match="3 is not a function"):
            mark(3)  # type: ignore[type-var]
        mark(dict)
    assert not app.middlewares
    assert app.hooks.load == app.hooks.unload == [dict]


def test_invalid_settings_name_the_function() -> None:
    app = App()
    app.model(max_queue="x")(number)
    with pytest.raises(InvalidSettings, match=r'function number: field "max_queue": must be'):
        app.settings()


app = App()


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b


class Echo(MLModel):
    async def predict(self, payload):  # type: ignore[no-untyped-def]
        return "echo"


async def test_app_is_mounted_in_fastapi() -> None:
    application = Application(app)
    host = FastAPI(lifespan=application.lifespan)
    host.mount("/models", application.asgi)
    async with host.router.lifespan_context(host):
        transport = httpx.ASGITransport(host)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            answered = await client.post("/models/v2/models/add/generate", json={"a": 2})
            refused = await client.post("/models/v2/models/add/generate", json={"a": "2"})
    assert answered.json()["output"] == 3
    assert refused.status_code == 400


async def test_app_is_served_next_to_classes() -> None:
    async with testing.run([app, Echo]) as client:
        assert (await client.infer("add", a=1)).outputs[0].data.root == [2]
        assert (await client.infer("Echo", x=1)).outputs[0].data.root == ["echo"]
    other = App()
    other.model(add)
    with pytest.raises(InvalidSettings, match='two models have the name "add"'):
        Application([app, other])


def test_sync_program_runs_an_app() -> None:
    with testing.run(app) as client:
        assert client.infer("add", a=1, b=4).outputs[0].data.root == [5]
        assert [each.outputs[0].data.root for each in client.stream("add", a=1)] == [[2]]
