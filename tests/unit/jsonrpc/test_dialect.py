"""The routes of JSON-RPC, over the application without a port."""

import json
from pathlib import Path

import httpx
import pytest

from inferstream import App, Application, MLModel

from .calling import call, post


async def test_an_error_has_the_servers_code_and_status(served) -> None:
    found, client = served

    @found.app.middleware
    async def _(call, call_next): ...

    data = (await post(client, call("count", [2, True], id=1)))["error"]["data"]
    assert data == {"code": "invalid", "status": 418}


async def test_each_request_of_a_body_has_a_line_whether_or_not_it_reaches_a_model(tmp_path: Path) -> None:
    app, log = App(), tmp_path / "audit.jsonl"

    @app.model
    async def double(n: int) -> int:
        return 2 * n

    good, unknown, wrong = call("double", [1], id=1), call("nobody", [1], id=2), call("double", ["x"], id=3)
    async with Application(app, audit_log=str(log)) as application:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for body in ([good, unknown, wrong], [unknown, unknown], unknown, {"jsonrpc": "1.0"}):
                await client.post("/rpc", json=body)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted((line["model"], line["status"]) for line in lines) == [
        ("", 400),
        ("double", 200),
        ("double", 400),
        *[("nobody", 404)] * 4,
    ]


async def test_a_body_that_is_too_large_keeps_its_status(served) -> None:
    _, client = served
    response = await client.post("/rpc", content=b" " * 100_001)
    assert response.status_code == 413
    assert response.json()["id"] is None


@pytest.mark.parametrize("path", ["/rpc", "/jsonrpc"])
async def test_a_stream_is_events_with_a_named_end(served, path: str) -> None:
    _, client = served
    response = await client.post(f"{path}/stream/count", json={"params": {"n": 2}})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text == "data: 0\n\ndata: 1\n\nevent: done\ndata: {}\n\n"
    response = await client.post(f"{path}/stream/count", json={"params": [1, True]})
    error = 'event: error\ndata: {"error":"after all","code":"invalid"}\n\nevent: done\ndata: {}\n\n'
    assert response.text == "data: 0\n\n" + error
    single = await client.post(f"{path}/stream/subtract", json={"params": [3, 1]})
    assert single.text == "data: 2\n\nevent: done\ndata: {}\n\n"


@pytest.mark.parametrize(
    ("model", "body", "status", "text"),
    [
        ("nobody", b"{}", 404, "Model nobody not found"),
        ("count", b"", 400, 'argument "n" is missing'),
        ("count", b"[]", 400, "must be an object"),
        ("count", b'{"params": 5}', 400, '\\"params\\"'.replace("\\", "")),
        ("count", b"{", 400, "Parse error"),
        ("count", b'{"params": {"n": "x"}}', 400, 'argument "n" takes an integer'),
    ],
)
async def test_a_stream_that_does_not_begin_is_an_event_too(
    served, model: str, body: bytes, status: int, text: str
) -> None:
    _, client = served
    response = await client.post(f"/rpc/stream/{model}", content=body)
    assert response.status_code == status
    assert response.headers["content-type"].startswith("text/event-stream")
    error, data, *_ = response.text.splitlines()
    assert error == "event: error"
    assert text in json.loads(data.removeprefix("data: "))["error"]


async def test_other_methods_are_refused(served) -> None:
    _, client = served
    assert (await client.get("/rpc")).status_code == 405


async def test_a_models_own_route_comes_first() -> None:
    from inferstream import custom_handler

    class Own(MLModel):
        @custom_handler("/rpc", rest_method="POST")
        async def rpc(self) -> str:
            return "mine"

    application = Application(Own)
    transport = httpx.ASGITransport(application.asgi)
    async with application, httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.post("/rpc")).json() == "mine"
        assert (await client.post("/jsonrpc", json=call("x", id=1))).json()["error"]["code"] == -32601
