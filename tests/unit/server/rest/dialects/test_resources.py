"""The repository, `.proto` files and the access log: their routes, refusals, and a client that leaves a stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from inferstream import App
from inferstream.server.application import Application
from inferstream.server.rest.dialects.resources import LOAD_PARAMETERS, _events
from inferstream.telemetry.access import AccessLines, Subscribers
from tests.asgi import Echo, asking
from tests.unit.telemetry.test_console import record

INDEX = "/v2/repository/index"


async def test_model_is_unloaded_and_reloaded() -> None:
    async with asking(Echo, allow_open_repository=True) as (client, _):
        unloaded = await client.post("/v2/repository/models/Echo/unload")
        assert unloaded.json() == {"name": "Echo", "unload": True}
        assert [model["state"] for model in (await client.post(INDEX)).json()] == ["UNAVAILABLE"]
        for ready in (True, "true", 1):
            assert (await client.post(INDEX, json={"ready": ready})).json() == []
        loaded = await client.post("/v2/repository/models/Echo/load", content=b" ")
        assert loaded.json() == {"name": "Echo", "load": True}
        assert [model["state"] for model in (await client.post(INDEX, json={"ready": True})).json()] == [
            "READY"
        ]


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        (INDEX, b"{", 400, "The body is not valid JSON"),
        (INDEX, b"[]", 400, "The body must be a JSON object."),
        (INDEX, b'{"ready": 2}', 400, '"ready" must be true or false'),
        (INDEX, b'{"a":' * 200 + b"1" + b"}" * 200, 400, "max_json_depth"),
        ("/v2/repository/models/Echo/load", b'{"parameters": {"config": "x"}}', 400, LOAD_PARAMETERS),
        ("/v2/repository/models/other/load", b"", 404, "other"),
        ("/v2/repository/models/other/unload", b"", 404, "other"),
    ],
)
async def test_invalid_repository_call_is_refused(path: str, body: bytes, status: int, said: str) -> None:
    async with asking(Echo, allow_open_repository=True) as (client, _):
        refused = await client.post(path, content=body)
        assert (refused.status_code, said in refused.json()["error"]) == (status, True)


async def test_plain_request_for_websocket_must_upgrade() -> None:
    async with asking(Echo, allow_open_repository=True) as (client, _):
        for path in ("/v2/models/Echo/stream", "/v2/models/Echo/versions/1/stream"):
            answered = await client.get(path)
            assert (answered.status_code, answered.headers["upgrade"]) == (426, "websocket")


async def test_proto_files_are_listed_with_their_paths() -> None:
    app = App()

    @app.model
    def add(a: int) -> int:
        return a

    async with asking(app, root_path="/ml") as (client, _):
        listed = (await client.get("/proto")).json()
        assert all(file["path"] == f"/ml/proto/{file['name']}" for file in listed)
        texts = {file["name"]: (await client.get(f"/proto/{file['name']}")).text for file in listed}
        assert any("rpc PredictAdd" in text for text in texts.values())
        missing = await client.get("/proto/no.proto")
        assert (missing.status_code, listed[0]["name"] in missing.json()["error"]) == (404, True)


async def test_unknown_path_is_a_json_error() -> None:
    async with asking(Echo, allow_open_repository=True) as (client, _):
        missing = await client.get("/nobody")
        said = "Not Found; hint: POST /v2/models/NAME/infer or generate calls a model"
        assert (missing.status_code, missing.json()) == (404, {"error": said})


async def test_invalid_access_log_flag_is_named() -> None:
    async with asking(Echo, allow_open_repository=True) as (client, _):
        refused = await client.get("/v2/access?errors=maybe")
        assert refused.status_code == 400
        assert refused.json()["error"] == "argument \"errors\" takes true or false, got 'maybe'"


async def test_access_log_subscriber_gets_records_and_drop_counts() -> None:
    lines = AccessLines()
    subscribers = Subscribers(lines)
    events = _events(subscribers, None, errors=False)
    assert not lines.on, "nobody has read anything"
    assert (await anext(events)).startswith(b":")
    assert lines.on
    lines.put(record(model="m"))
    subscribers.put_foreign([], 3)
    assert await anext(events) == b'event: dropped\ndata: {"dropped":3}\n\n'
    told = json.loads((await anext(events)).removeprefix(b"data: "))
    assert told["model"] == "m"
    subscribers.end()
    async with asyncio.timeout(10):
        assert all(event.startswith(b":") for event in [event async for event in events])
    assert not lines.on


async def test_access_log_subscriber_is_removed_on_disconnect() -> None:
    lines = AccessLines()
    events: Any = _events(Subscribers(lines), None, errors=False)
    await anext(events)
    await events.aclose()
    assert not lines.on


app = App()


@app.model
def double(n: int) -> int:
    return 2 * n


@pytest_asyncio.fixture
async def application() -> AsyncIterator[Application]:
    async with Application(app, allow_open_repository=True) as application:
        yield application


async def ask(application: Application, method: str, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(application.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path)


async def test_model_name_may_look_like_a_version(application: Application) -> None:
    response = await ask(application, "POST", "/v2/repository/models/double/versions/1/load")
    assert (response.status_code, response.json()) == (404, {"error": "Model double/versions/1 not found"})


async def test_wrong_method_is_refused_whether_or_not_the_model_exists(application: Application) -> None:
    for name in ("double", "nobody"):
        response = await ask(application, "GET", f"/v2/repository/models/{name}/load")
        assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_invalid_access_log_query_is_refused(
    application: Application,
) -> None:
    response = await ask(application, "GET", "/v2/access?errors=perhaps")
    assert response.json()["error"] == "argument \"errors\" takes true or false, got 'perhaps'"


async def test_disconnected_access_log_client_is_unsubscribed(
    application: Application,
) -> None:
    sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    left = asyncio.Event()
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b""}
        await left.wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/v2/access",
        "query_string": b"model=double",
        "headers": [(b"host", b"localhost")],
        "root_path": "",
        "client": ("127.0.0.1", 1),
    }
    serving = asyncio.create_task(application.asgi(scope, receive, sent.put))
    async with asyncio.timeout(10):
        assert (await sent.get())["status"] == 200
        assert (await sent.get())["body"].startswith(b":")
        assert application._backend.dataplane.lines.on
        await ask(application, "POST", "/v2/models/other/infer")
        await ask(application, "POST", "/v2/models/double/infer")
        assert b'"model":"double"' in (await sent.get())["body"]
        left.set()
        await serving
    assert not application._backend.dataplane.lines.on


async def test_head_does_not_follow_the_access_log() -> None:
    async with Application([]) as application:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            refused = await client.head("/v2/access")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
