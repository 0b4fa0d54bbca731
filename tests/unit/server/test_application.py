"""The application as an ASGI server meets it, without one."""

import asyncio
from pathlib import Path

import httpx
import pytest

from inferstream import (
    Application,
)
from inferstream.errors import InvalidSettings, ModelNotFound
from inferstream.types import State
from tests.asgi import Client, Echo, http, request


async def test_prefix_is_stripped_if_present() -> None:
    async with Application(Echo) as application:
        for path, root in (
            ("/v2/models/Echo/infer", ""),
            ("/some/where/v2/models/Echo/infer", "/some/where"),
            ("/v2/models/Echo/infer", "/stripped/by/a/proxy"),
            ("/v2/v2/models/Echo/infer", "/v2"),
        ):
            status, body = await Client(request()).ask(application.asgi, http(path, root_path=root))
            assert (status, b"here" in body) == (200, True)
        for path in ("/sub", "/sub/"):
            status, body = await Client().ask(application.asgi, http(path, method="GET", root_path="/sub"))
            assert (status, body) == (200, b'{"status":"alive"}')
        scope = http("/sub/echo/me", b"", "GET", root_path="/sub")
        assert await Client(request(b"")).ask(application.asgi, scope) == (200, b'"me"')


async def test_lifespan_loads_and_unloads() -> None:
    application = Application(Echo)
    client = Client({"type": "lifespan.startup"})
    living = asyncio.create_task(application.asgi({"type": "lifespan"}, client.messages.get, client.send))
    async with asyncio.timeout(10):
        while not client.sent:
            await asyncio.sleep(0.001)
    assert client.sent == [{"type": "lifespan.startup.complete"}]
    assert application.started
    client.messages.put_nowait({"type": "lifespan.shutdown"})
    await living
    assert client.sent[1:] == [{"type": "lifespan.shutdown.complete"}]
    status, body = await Client(request()).ask(application.asgi, http("/v2/models/Echo/infer"))
    assert (status, b"shutting down" in body) == (503, True)


async def test_failed_startup_reports_its_reason() -> None:
    class Broken(Echo):
        async def load(self) -> bool:
            raise ValueError("no weights")

    client = Client({"type": "lifespan.startup"})
    await Application(Broken, strict=True).asgi({"type": "lifespan"}, client.messages.get, client.send)
    [failed] = client.sent
    assert failed["type"] == "lifespan.startup.failed"
    assert "no weights" in failed["message"]


async def test_application_runs_once() -> None:
    application = Application(Echo)
    async with application:
        pass
    with pytest.raises(InvalidSettings, match="an Application runs once"):
        await application.start()


async def test_unknown_scope_is_an_error() -> None:
    with pytest.raises(ValueError, match="'telnet'"):
        await Application(Echo).asgi({"type": "telnet"}, Client().messages.get, Client().send)


FUNCTIONS = """
from inferstream import App

app = App()

@app.model
def double(a: int) -> int:
    return 2 * a
"""

CLASSES = """
from inferstream import MLModel

class Doubling(MLModel):
    async def predict(self, payload): ...
"""


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("given", [Path, str])
async def test_app_is_served_by_file_path(tmp_path: Path, given: type, workers: int) -> None:
    (tmp_path / "doubling_functions.py").write_text(FUNCTIONS)
    place = given(tmp_path / "doubling_functions.py")
    async with Application(place, parallel_workers=workers) as application:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            answer = await client.post("/v2/models/double/generate", json={"a": 2})
    assert answer.json()["output"] == 4


async def test_app_is_served_by_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "further_functions.py").write_text(
        FUNCTIONS.replace("app = ", "further = ").replace("@app", "@further")
    )
    monkeypatch.chdir(tmp_path)
    async with Application("further_functions:further") as application:
        assert [name for name, _ in application.loaded] == ["double"]


async def test_classes_are_served_by_file_path(tmp_path: Path) -> None:
    (tmp_path / "doubling_classes.py").write_text(CLASSES)
    async with Application(tmp_path / "doubling_classes.py") as application:
        assert [name for name, _ in application.loaded] == ["Doubling"]


async def test_folder_with_the_calling_program_is_a_model_folder(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise AssertionError")
    async with Application(tmp_path) as application:
        assert application.loaded == []


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("nowhere", "there is no file or folder nowhere"),
        ("nowhere.py", "there is no file nowhere.py"),
        ("no.where:app", "no.where"),
    ],
)
def test_path_without_models_is_named(
    place: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSettings, match=says):
        Application(place)


def test_application_has_only_documented_public_names() -> None:
    application = Application(Echo)
    assert [name for name in vars(application) if not name.startswith("_")] == []
    assert {name for name in dir(application) if not name.startswith("_")} == {
        *("asgi", "calls", "grpc_services", "lifespan", "meters", "models", "predict", "settings", "stream"),
        *("drain", "index", "leave", "leaving", "load", "loaded", "ready", "start", "started", "stop"),
        *("unload", "unserved"),
    }


async def test_program_unloads_and_loads_a_model() -> None:
    async with Application(Echo) as application:
        assert (application.ready, application.loaded, application.unserved) == (True, [("Echo", None)], [])
        assert await application.unload("Echo")
        assert not await application.unload("Echo")
        assert application.loaded == []
        assert [(item.name, item.state) for item in await application.index()] == [
            ("Echo", State.UNAVAILABLE)
        ]
        assert await application.index(ready=True) == []
        await application.load("Echo")
        assert application.loaded == [("Echo", None)]
        with pytest.raises(ModelNotFound):
            await application.load("nothing")


async def test_program_sees_models_that_fail_to_load() -> None:
    class Broken(Echo):
        async def load(self) -> bool:
            raise ValueError("no weights")

    async with Application({"broken": Broken, "echo": Echo}) as application:
        assert (application.started, application.ready) == (True, False)
        assert (application.loaded, application.unserved) == ([("echo", None)], [("broken", None)])


async def test_leaving_application_serves_until_it_drains() -> None:
    async with Application(Echo) as application:
        application.leave()
        assert (application.leaving, application.ready) == (True, False)
        status, _ = await Client(request()).ask(application.asgi, http("/v2/models/Echo/infer"))
        assert status == 200
        await application.drain(0)
        status, _ = await Client(request()).ask(application.asgi, http("/v2/models/Echo/infer"))
        assert status == 503
        assert application.loaded == [("Echo", None)]


async def test_application_models_are_visible_to_transports() -> None:
    async with Application(Echo) as application:
        assert application.models.model_ready("Echo")
        assert application.models.described("Echo").settings.name == "Echo"
        assert application.meters.families()
