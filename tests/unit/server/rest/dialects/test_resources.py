"""The server's own resources: their names are no models', and the access log is a stream that its client may leave."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest_asyncio

from inferstream import App
from inferstream.server.application import Application

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


async def test_a_name_that_looks_like_a_version_is_a_name(application: Application) -> None:
    response = await ask(application, "POST", "/v2/repository/models/double/versions/1/load")
    assert (response.status_code, response.json()) == (404, {"error": "Model double/versions/1 not found"})


async def test_a_wrong_method_is_refused_whether_or_not_the_name_is_there(application: Application) -> None:
    for name in ("double", "nobody"):
        response = await ask(application, "GET", f"/v2/repository/models/{name}/load")
        assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_a_wrong_question_to_the_access_log_is_refused(
    application: Application,
) -> None:
    response = await ask(application, "GET", "/v2/access?errors=perhaps")
    assert response.json()["error"] == "argument \"errors\" takes true or false, got 'perhaps'"


async def test_a_client_that_leaves_the_access_log_is_no_subscriber_any_more(
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
        assert application.dataplane.lines.on
        await ask(application, "POST", "/v2/models/other/infer")
        await ask(application, "POST", "/v2/models/double/infer")
        assert b'"model":"double"' in (await sent.get())["body"]
        left.set()
        await serving
    assert not application.dataplane.lines.on
