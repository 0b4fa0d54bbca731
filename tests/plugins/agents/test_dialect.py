"""The routes of JSON-RPC, over the application without a port."""

import json

import httpx
import pytest

from inferstream import Application, MLModel
from tests.plugins.agents.calling import call, post


async def test_error_has_server_code_and_status(served) -> None:
    found, client = served

    @found.app.middleware
    async def _(call, call_next): ...

    data = (await post(client, call("count", [2, True], id=1)))["error"]["data"]
    assert data == {"code": "invalid", "status": 418}


async def test_oversized_body_keeps_status(served) -> None:
    _, client = served
    response = await client.post("/rpc", content=b" " * 100_001)
    assert response.status_code == 413
    assert response.json()["id"] is None


@pytest.mark.parametrize("path", ["/rpc", "/jsonrpc"])
async def test_stream_is_sse_with_named_end_event(served, path: str) -> None:
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
async def test_stream_failing_at_start_is_an_event(
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


async def test_custom_route_takes_precedence() -> None:
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
