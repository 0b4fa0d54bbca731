"""The application as an ASGI server meets it, without one."""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from inferstream import (
    Application,
    InferenceRequest,
    InferenceResponse,
    MLModel,
    ModelSettings,
    custom_handler,
)
from inferstream.errors import InvalidSettings

Message = dict[str, Any]
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1], "datatype": "INT64", "data": [1]}]}).encode()


class Echo(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.encode_response(["here"])

    @custom_handler(rest_path="/echo/{what}", rest_method="GET")
    async def echo(self, what: str) -> str:
        return what


class Waiting(MLModel):
    """Waits for good, and says when it has begun and how it ended."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        raise AssertionError


def waiting() -> Waiting:
    return Waiting(ModelSettings(implementation=Waiting, name="waiting"))


def http(path: str, body: bytes = BODY, method: str = "POST", **more: Any) -> Message:
    headers = [(b"content-length", b"%d" % len(body)), *more.pop("headers", [])]
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": headers,
        **more,
    }


class Client:
    """The other end: what it receives is kept, and it leaves when told."""

    def __init__(self, *messages: Message) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        for message in messages:
            self.messages.put_nowait(message)
        self.sent: list[Message] = []

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def ask(self, app: Any, scope: Message) -> tuple[int, bytes]:
        await app(scope, self.messages.get, self.send)
        return self.sent[0]["status"], b"".join(part.get("body", b"") for part in self.sent[1:])


def request(body: bytes = BODY) -> Message:
    return {"type": "http.request", "body": body, "more_body": False}


async def test_a_prefix_is_taken_off_where_the_path_has_it() -> None:
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


async def test_a_client_that_leaves_cancels_its_call_and_not_the_server() -> None:
    model = waiting()
    async with Application(model) as application:
        client = Client(request())
        serving = asyncio.create_task(
            application.asgi(http("/v2/models/waiting/infer"), client.messages.get, client.send)
        )
        await model.begun.wait()
        client.messages.put_nowait({"type": "http.disconnect"})
        async with asyncio.timeout(10):
            await model.ended.wait()
            await serving
        assert not serving.cancelling()
        assert client.sent == []


async def test_the_end_of_a_response_is_not_taken_for_a_client_that_leaves() -> None:
    async with Application(Echo) as application:
        client = Client(request())

        async def send(message: Any) -> None:
            client.sent.append(message)
            if message["type"] == "http.response.body":
                client.messages.put_nowait({"type": "http.disconnect"})
                for _ in range(5):
                    await asyncio.sleep(0)

        await application.asgi(http("/v2/models/Echo/infer"), client.messages.get, send)
        assert client.sent[0]["status"] == 200
        assert 'status_code="499"' not in (await application.meters.scrape()).decode()


async def test_nothing_is_left_behind_by_a_request() -> None:
    async with Application(Echo) as application:
        before = asyncio.all_tasks()
        for body in (BODY, b"{", BODY * 3):
            await Client(request(body)).ask(application.asgi, http("/v2/models/Echo/infer", body))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before


async def test_http_2_gets_no_header_of_the_connection() -> None:
    async with Application(Echo, max_body_bytes=1) as application:
        for version, expected in (("1.1", True), ("2", False)):
            client = Client(request())
            scope = http("/v2/models/Echo/infer", http_version=version)
            assert (await client.ask(application.asgi, scope))[0] == 413
            assert ((b"connection", b"close") in client.sent[0]["headers"]) is expected


async def test_the_lifespan_loads_and_unloads() -> None:
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


async def test_a_start_that_fails_tells_the_server_why() -> None:
    class Broken(Echo):
        async def load(self) -> bool:
            raise ValueError("no weights")

    client = Client({"type": "lifespan.startup"})
    await Application(Broken, strict=True).asgi({"type": "lifespan"}, client.messages.get, client.send)
    [failed] = client.sent
    assert failed["type"] == "lifespan.startup.failed"
    assert "no weights" in failed["message"]


async def test_an_application_runs_once() -> None:
    application = Application(Echo)
    async with application:
        pass
    with pytest.raises(InvalidSettings, match="an Application runs once"):
        await application.start()


async def test_an_unknown_scope_is_an_error() -> None:
    with pytest.raises(ValueError, match="'telnet'"):
        await Application(Echo).asgi({"type": "telnet"}, Client().messages.get, Client().send)


def socket(**more: Any) -> Message:
    return {"type": "websocket", "path": "/v2/models/Echo/stream", "headers": [], **more}


async def test_a_websocket_that_is_refused_gets_what_its_server_can_send() -> None:
    application = Application(Echo)
    client = Client({"type": "websocket.connect"})
    await application.asgi(socket(), client.messages.get, client.send)
    assert client.sent == [{"type": "websocket.close"}]
    client = Client({"type": "websocket.connect"})
    scope = socket(extensions={"websocket.http.response": {}})
    await application.asgi(scope, client.messages.get, client.send)
    assert client.sent[0]["status"] == 503
    assert b"has not been started" in client.sent[1]["body"]


async def test_a_websocket_closes_on_what_is_too_large() -> None:
    async with Application(Echo, max_body_bytes=100) as application:
        client = Client({"type": "websocket.connect"}, {"type": "websocket.receive", "text": "x" * 101})
        serving = asyncio.create_task(application.asgi(socket(), client.messages.get, client.send))
        async with asyncio.timeout(10):
            while len(client.sent) < 2:
                await asyncio.sleep(0.001)
        assert client.sent[1]["type"] == "websocket.close"
        assert client.sent[1]["code"] == 1009
        client.messages.put_nowait({"type": "websocket.disconnect", "code": 1009})
        await serving


async def test_a_websocket_whose_client_reads_nothing_is_read_no_more_and_then_dropped() -> None:
    async with Application(Echo, stream_stall_timeout=1) as application:
        client = Client({"type": "websocket.connect"})
        for _ in range(10_000):
            client.messages.put_nowait({"type": "websocket.receive", "text": "no request"})
        accepted = False

        async def send(message: Any) -> None:
            nonlocal accepted
            if accepted:
                await asyncio.Event().wait()
            accepted = True

        async with asyncio.timeout(10):
            await application.asgi(socket(), client.messages.get, send)
        assert client.messages.qsize() > 9000


async def started(host: Any, application: Application) -> None:
    async with application.lifespan(host):
        pass


def fastapi(*routes: Callable[[FastAPI, Application], object]) -> tuple[FastAPI, Application]:
    host, application = FastAPI(), Application(Echo)
    for add in routes:
        add(host, application)
    return host, application


def mount(prefix: str) -> Callable[[FastAPI, Application], object]:
    return lambda host, application: host.mount(prefix, application.asgi)


def get(path: str) -> Callable[[FastAPI, Application], object]:
    return lambda host, application: host.get(path)(lambda: None)


def included(path: str) -> Callable[[FastAPI, Application], object]:
    router = APIRouter()
    router.get(path)(lambda: None)
    return lambda host, application: host.include_router(router)


@pytest.mark.parametrize(
    "routes",
    [
        [mount("/models")],
        [get("/models"), mount("/models")],
        [mount("/models"), get("/modelsmore")],
        [get("/x")],
    ],
)
async def test_a_mount_that_hides_nothing_starts(routes: Iterable[Any]) -> None:
    await started(*fastapi(*routes))


@pytest.mark.parametrize(
    ("routes", "reason"),
    [
        ([get("/models/v2"), mount("/models")], 'route "/models/v2" hides "/models/v2" of'),
        ([get("/models/{x}/{y}"), mount("/models")], 'route "/models/{x}/{y}" hides "/models/'),
        ([included("/models/v2"), mount("/models")], 'hides "/models/v2" of'),
        ([get("/models/echo/{x}"), mount("/models")], 'hides "/models/echo/{what}" of'),
        ([mount("/models"), get("/models/mine")], 'mounted at "/models" hides the route "/models/mine"'),
        ([mount("")], 'route "/openapi.json" hides "/openapi.json" of the application mounted at "/"'),
    ],
)
async def test_a_mount_that_hides_a_route_or_is_hidden_names_both(routes: Iterable[Any], reason: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        await started(*fastapi(*routes))
    assert reason in refused.value.message


async def test_starlette_may_mount_it_at_its_root() -> None:
    application = Application(Echo)
    await started(Starlette(routes=[Mount("/", application.asgi)]), application)


async def test_a_route_of_a_model_that_the_server_hides_is_named_with_who_claims_it(caplog: Any) -> None:
    class Hidden(Echo):
        @custom_handler("/v2/logging")
        async def log(self) -> None: ...

        @custom_handler("/v2/models/{name}/explain")
        async def explain(self) -> None: ...

        @custom_handler("/v2/docs", rest_method="GET")
        async def docs(self) -> None: ...

    async with Application(Hidden):
        pass
    said = [record.getMessage() for record in caplog.records if "is hidden" in record.getMessage()]
    assert sorted(said) == [
        'model Hidden: its route /v2/docs is hidden: the dialect "documentation" claims it',
        'model Hidden: its route /v2/logging is hidden: the dialect "triton\'s missing extensions" claims it',
        'model Hidden: its route /v2/models/{name}/explain is hidden: the dialect "metadata" claims it',
    ]


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
async def test_an_app_is_served_by_the_path_of_its_file(tmp_path: Path, given: type, workers: int) -> None:
    (tmp_path / "doubling_functions.py").write_text(FUNCTIONS)
    place = given(tmp_path / "doubling_functions.py")
    async with Application(place, parallel_workers=workers) as application:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            answer = await client.post("/v2/models/double/generate", json={"a": 2})
    assert answer.json()["output"] == 4


async def test_an_app_is_served_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "further_functions.py").write_text(
        FUNCTIONS.replace("app = ", "further = ").replace("@app", "@further")
    )
    monkeypatch.chdir(tmp_path)
    async with Application("further_functions:further") as application:
        assert [name for name, _ in application.registry.names()] == ["double"]


async def test_classes_are_served_by_the_path_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "doubling_classes.py").write_text(CLASSES)
    async with Application(tmp_path / "doubling_classes.py") as application:
        assert [name for name, _ in application.registry.names()] == ["Doubling"]


async def test_a_folder_is_one_of_models_also_where_the_calling_program_lies_in_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise AssertionError")
    async with Application(tmp_path) as application:
        assert application.registry.names() == []


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("nowhere", "nowhere is not a folder, nor an app"),
        ("nowhere.py", "there is no file nowhere.py"),
        ("no.where:app", "no.where"),
    ],
)
def test_a_place_where_nothing_is_served_is_named(
    place: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSettings, match=says):
        Application(place)
