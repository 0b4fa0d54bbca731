"""Calls of an application's models from its own process: the values and the errors of a client over HTTP."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any
from unittest.mock import AsyncMock, Mock

import numpy as np
import pandas as pd
import pytest

from inferstream import (
    Application,
    AsyncClient,
    InferenceRequest,
    ModelSettings,
    Parameters,
    StringCodec,
    serve,
    testing,
)
from inferstream.errors import CallFailed, CallTimedOut, InferenceFailed, InvalidSettings, ModelLoadFailed
from tests.unit.server import in_process_models as models

VALUES: dict[str, tuple[str, dict[str, Any]]] = {
    "number": ("add", {"a": 1}),
    "dataclass": ("shift", {"point": {"x": 1, "y": 2}, "by": 3}),
    "several outputs": ("halves", {"n": 7}),
    "array": ("scaled", {"x": np.array([[1.0, 2.0], [3.0, 4.0]])}),
    "strided array": ("scaled", {"x": np.arange(8.0)[::2]}),
    "data frame": ("summed", {"table": pd.DataFrame({"a": [1, 2]})}),
    "bytes and list": ("flags", {"raw": b"\x00\xff", "names": ["a", "b"]}),
    "batched function": ("batched", {"a": [4, 5]}),
    "class": ("who_class", {"x": "a"}),
}

STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "generator": ("count", {"to": 3}),
    "step model": ("letters", {"text": "abc"}),
    "one item of a plain function": ("add", {"a": 1}),
    "a stream of arguments": ("running", {"values": [1, 2, 3]}),
}

FAILURES: dict[str, tuple[str, dict[str, Any]]] = {
    "status of the model": ("failing", {"kind": "status"}),
    "fault of the model": ("failing", {"kind": "other"}),
    "unknown model": ("absent", {"a": 1}),
    "wrong type": ("add", {"a": "x"}),
    "missing argument": ("add", {}),
    "unknown argument": ("add", {"a": 1, "c": 1}),
    "later failure of a stream": ("count", {"to": 1, "fail": True}),
    "time limit": ("waits", {"x": "a", "timeout": 0.05}),
}

SERVED = [models.app, ModelSettings(name="who_class", implementation=models.Who)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve(SERVED, background=True) as url:
        yield url


def comparable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tolist()
    return type(value), value


@pytest.mark.parametrize("workers", [0, 1])
async def test_in_process_values_match_client_values(url: str, workers: int) -> None:
    async with AsyncClient(url) as client, Application(SERVED, parallel_workers=workers) as application:
        for name, (model, arguments) in VALUES.items():
            got = await application.predict(model, **arguments)
            assert comparable(got) == comparable(await client.predict(model, **arguments)), name
            assert comparable(got) == comparable(await application.predict(model, arguments)), name
        for name, (model, arguments) in STREAMS.items():
            items = [item async for item in application.stream(model, **arguments)]
            assert items == [item async for item in client.stream(model, **arguments)], name
            assert items


async def failure_of(target: Any, model: str, arguments: dict[str, Any]) -> tuple[Any, ...]:
    with pytest.raises((CallFailed, TypeError, ValueError)) as caught:
        if model == "count":
            [item async for item in target.stream(model, **arguments)]
        else:
            await target.predict(model, **arguments)
    error = caught.value
    message = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", str(error))
    return type(error), message, getattr(error, "status", None), getattr(error, "retryable", None)


@pytest.mark.parametrize("workers", [0, 1])
async def test_in_process_errors_match_client_errors(url: str, workers: int) -> None:
    async with AsyncClient(url) as client, Application(SERVED, parallel_workers=workers) as application:
        for name, case in FAILURES.items():
            here = await failure_of(application, *case)
            there = await failure_of(client, *case)
            if name == "time limit":  # the server's limit or the client's own passes first
                assert here[0] is there[0] is CallTimedOut
                assert here[2] == there[2] == 504
            else:
                assert here == there, name


async def test_failure_has_the_original_exception_as_cause() -> None:
    async with testing.run(models.app) as app:
        with pytest.raises(CallFailed) as caught:
            await app.predict("failing", kind="other")
    assert isinstance(caught.value.__cause__, InferenceFailed)
    assert str(caught.value.__cause__.__cause__) == "secret"


async def test_unstarted_application_is_unavailable() -> None:
    with pytest.raises(CallFailed) as caught:
        await Application(models.app).predict("add", a=1)
    assert caught.value.status == 503


async def test_changes_on_one_side_do_not_reach_the_other() -> None:
    async with testing.run({"kept": models.Kept}) as app:
        given = np.ones(3)
        for _ in range(2):
            weights = await app.predict("kept", x=given)
            assert given.tolist() == weights.ravel().tolist() == [1, 1, 1]
            weights += 1
    async with testing.run(models.app) as app:
        await app.predict("scaled", x=given)
    assert given.tolist() == [1, 1, 1]


async def test_call_does_not_change_the_caller_context() -> None:
    before = models.contexts()
    async with testing.run(models.app) as app:
        await app.predict("who_context", x="a")
        assert [item async for item in app.predict_stream("count", to=2)] == [0, 1]
        await app.infer("add", a=1)
        assert models.contexts() == before


async def test_closing_a_stream_ends_the_call() -> None:
    models.ended.clear()
    async with testing.run(models.app) as app:
        for calls, name in ((app.predict_stream, "values"), (app.stream, "responses")):
            async with aclosing(calls("endless", name=name)) as items:
                async for _ in items:
                    break
    assert models.ended == ["values", "responses"]


async def test_cancelled_caller_ends_the_call() -> None:
    async with testing.run(models.app) as app:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await app.predict("waits", x="a")
        meters = app.application.meters
        assert meters is not None
        assert await app.predict("add", a=1) == 2


def test_sync_test_gets_values() -> None:
    with testing.run(models.app) as app:
        assert app.predict("add", a=1) == 2
        assert app.predict("add", {"a": 1, "b": 4}) == 5
        assert app.predict_stream("count", to=3) == [0, 1, 2]


@pytest.fixture
async def started() -> AsyncIterator[testing.InProcess]:
    async with testing.run(models.app, overrides={models.user: lambda: "bob"}) as app:
        yield app


async def test_fixture_serves_an_app_with_overrides(started: testing.InProcess) -> None:
    assert await started.predict("who", x="a") == "bob"


# Headers

WHO = ["who", "who_async", "who_later", "who_nested", "who_context", "who_batched", "who_class"]
WHO_STREAM = ["who_stream", "who_async_stream", "who_steps"]


async def name_of(app: testing.InProcess, model: str, *given: Any, **more: Any) -> str:
    if model in WHO_STREAM:
        [response] = [response async for response in app.stream(model, *given, **more)]
    else:
        response = await app.infer(model, *given, **more)
    [name] = StringCodec.decode_output(response.outputs[0])
    return name


@pytest.mark.parametrize("workers", [0, 1])
async def test_headers_reach_models_as_over_http(workers: int) -> None:
    bob = {"X-User": "bob"}
    async with testing.run(SERVED, parallel_workers=workers) as app:
        for model in [*WHO, *WHO_STREAM]:
            request = testing.build_request({"x": "a"})
            assert await name_of(app, model, request, headers=bob) == "bob", model
            assert await name_of(app, model, request) == "nobody", model
            assert await name_of(app, model, x="a", headers=bob) == "bob", model
            assert await name_of(app, model, x="a") == "nobody", model
            with_headers = InferenceRequest(inputs=request.inputs, parameters=Parameters(headers=bob))
            assert await name_of(app, model, with_headers) == "bob", model
            assert await name_of(app, model, with_headers, headers={"x-user": "eve"}) == "eve", model
        for model in WHO:
            given = ["a"] if model == "who_batched" else "a"
            assert await app.predict(model, x=given, headers=bob) in ("bob", ["bob"]), model
        for model in WHO_STREAM:
            assert [name async for name in app.predict_stream(model, x="a", headers=bob)] == ["bob"], model


# Overrides


async def said_by(overrides: dict[Any, Any], *names: str) -> None:
    async with testing.run(models.app, overrides=overrides) as app:
        for model in names:
            assert await name_of(app, model, x="a") == "bob", model


async def bob() -> str:
    return "bob"


DEPENDING = ["who", "who_async", "who_nested", "who_batched", *WHO_STREAM]


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        ({models.user: lambda: "bob"}, DEPENDING),
        ({models.user: lambda headers: "bob"}, DEPENDING),
        ({models.user: Mock(return_value="bob")}, DEPENDING),
        ({models.later: lambda: "bob"}, ["who_later"]),
        ({models.later: bob}, ["who_later"]),
        ({models.later: AsyncMock(return_value="bob")}, ["who_later"]),
        ({models.greeting: lambda: "hi bob", models.user: lambda: "bob"}, ["who", "who_nested"]),
    ],
)
async def test_dependency_override_receives_its_arguments(
    overrides: dict[Any, Any], names: list[str]
) -> None:
    await said_by(overrides, *names)
    async with testing.run(models.app) as app:
        assert await app.predict("who", x="a") == "nobody"


async def test_dependency_override_may_use_the_dependency() -> None:
    def louder(name: str = models.Depends(models.user)) -> str:
        return name.upper()

    async with testing.run(models.app, overrides={models.user: louder}) as app:
        assert await app.predict("who", x="a", headers={"x-user": "bob"}) == "BOB"


def test_async_overrides_of_blocking_functions() -> None:
    from inferstream import App

    app = App()

    @app.model
    def who(x: str, name: str = models.Depends(models.user)) -> str:
        return name

    with testing.run(app, overrides={models.user: bob}) as served:
        assert served.predict("who", x="a") == "bob"


def needs(x: int) -> str:
    return str(x)


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        ({bob: bob}, InvalidSettings, "overrides: no function depends on bob"),
        ({models.user: "bob"}, InvalidSettings, "is no function"),
        ({models.user: needs}, InvalidSettings, "nothing fills"),
    ],
)
async def test_invalid_overrides_are_refused(overrides: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        async with testing.run(models.app, overrides=overrides):
            pass


async def test_workers_have_their_own_dependencies() -> None:
    with pytest.raises(ModelLoadFailed, match="overrides need models in this process"):
        async with testing.run(models.app, overrides={models.user: lambda: "bob"}, parallel_workers=1):
            pass
