"""JSON-RPC 2.0 against its specification, over the application without a port."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from inferstream import App, Application, MLModel, ModelError, Refused
from inferstream.jsonrpc.calls import AT_ONCE
from inferstream.jsonrpc.messages import MOST_CALLS


class Served:
    """An app, and what its models have noted."""

    def __init__(self) -> None:
        self.app = App()
        self.running = self.most = 0
        self.ran: list[Any] = []
        self.closed = asyncio.Event()

        @self.app.model
        async def subtract(minuend: int, subtrahend: int) -> int:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.001)
            self.running -= 1
            self.ran.append(minuend)
            return minuend - subtrahend

        @self.app.model
        async def count(n: int, fail: bool = False) -> AsyncIterator[int]:
            try:
                for i in range(n):
                    yield i
                if fail:
                    raise ModelError("after all", 418)
            finally:
                self.closed.set()

        @self.app.model("predict.odd", version="2")
        def odd(text: str) -> str:
            if text == "fail":
                raise RuntimeError("secret")
            return text


@pytest.fixture
async def served() -> AsyncIterator[tuple[Served, httpx.AsyncClient]]:
    found = Served()

    class Undeclared(MLModel):
        async def predict(self, payload): ...

    application = Application([found.app, Undeclared], max_body_bytes=100_000)
    transport = httpx.ASGITransport(application.asgi)
    async with application, httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield found, client


def call(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    document = {"jsonrpc": "2.0", "method": method, **more}
    return document if params is None else {**document, "params": params}


async def post(client: httpx.AsyncClient, document: Any, path: str = "/rpc") -> Any:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    response = await client.post(path, content=body)
    assert response.status_code == 200, response.text
    return response.json() if response.content else None


async def test_arguments_by_position_and_by_name(served) -> None:
    _, client = served
    for params in ([42, 23], {"subtrahend": 23, "minuend": 42}):
        for method in ("subtract", "predict.subtract"):
            answer = await post(client, call(method, params, id=3))
            assert answer == {"jsonrpc": "2.0", "result": 19, "id": 3}
    for name in ("predict.odd", "predict.odd:2", "predict.predict.odd:2"):
        assert (await post(client, call(name, ["x"], id="a")))["result"] == "x"


@pytest.mark.parametrize(
    ("document", "number", "id", "text"),
    [
        (b'{"jsonrpc": "2.0", "method": "foobar, "params": "bar"', -32700, None, "Parse error"),
        (b"\xff", -32700, None, "Parse error"),
        (b"", -32700, None, "Parse error"),
        (
            b'{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 1, "minuend": 2}}',
            -32600,
            None,
            '"minuend"',
        ),
        ({"jsonrpc": "2.0", "method": 1, "params": "bar"}, -32600, None, '"method"'),
        ({"method": "subtract", "id": 7}, -32600, 7, '"jsonrpc"'),
        ({"jsonrpc": "2.0", "method": "subtract", "id": {}}, -32600, None, '"id"'),
        ({"jsonrpc": "2.0", "method": "subtract", "id": True}, -32600, None, '"id"'),
        (5, -32600, None, "object"),
        ([], -32600, None, "empty"),
        ([1] * (MOST_CALLS + 1), -32600, None, f"at most {MOST_CALLS}"),
        (call("subtract", "bar", id=1), -32602, 1, '"params"'),
        (call("subtract", [1], id=1), -32602, 1, 'argument "subtrahend" is missing'),
        (call("subtract", [1, "x"], id=1), -32602, 1, 'argument "subtrahend" takes an integer'),
        (call("subtract", {"a": 1}, id="x"), -32602, "x", '"a" is no argument'),
        (call("foobar", id="1"), -32601, "1", "Model foobar not found"),
        (call("predict.foobar", id="1"), -32601, "1", "Model foobar not found"),
        (call("stream.count", [1], id=2), -32600, 2, "/rpc/stream/count"),
        (call("Undeclared", [1], id=2), -32602, 2, "declares no inputs"),
        (call("count", [2, True], id=2), -32000, 2, "after all"),
        (call("predict.odd", ["fail"], id=2), -32603, 2, "failed"),
    ],
)
async def test_errors(served, document: Any, number: int, id: Any, text: str) -> None:
    _, client = served
    answer = await post(client, document)
    assert (answer["jsonrpc"], answer["error"]["code"], answer["id"]) == ("2.0", number, id)
    assert text in answer["error"]["message"]
    assert "secret" not in json.dumps(answer)


async def test_an_error_has_the_servers_code_and_status(served) -> None:
    found, client = served

    @found.app.middleware
    async def _(call, call_next): ...

    data = (await post(client, call("count", [2, True], id=1)))["error"]["data"]
    assert data == {"code": "invalid", "status": 418}


async def test_middleware_refuses_a_call_and_not_its_neighbours() -> None:
    app = App()

    @app.model
    def double(n: int) -> int:
        return 2 * n

    @app.middleware
    async def odd_numbers_alone(call, call_next):
        assert call.face == "jsonrpc"
        if call.request.inputs[0].data[0] % 2 == 0:
            raise Refused("even", 401)
        return await call_next(call)

    application = Application(app)
    transport = httpx.ASGITransport(application.asgi)
    async with application, httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answers = await post(client, [call("double", [n], id=n) for n in (1, 2, 3)])
        assert [answer.get("result") for answer in answers] == [2, None, 6]
        assert answers[1]["error"]["data"] == {"code": "unauthenticated", "status": 401}
        refused = await client.post("/rpc/stream/double", json={"params": [2]})
        assert refused.status_code == 401
        assert refused.text.startswith('event: error\ndata: {"error":"even"')


async def test_a_notification_runs_and_has_no_answer(served) -> None:
    found, client = served
    assert await post(client, call("subtract", [5, 1])) is None
    assert await post(client, call("nobody", [5, 1])) is None
    assert await post(client, [call("subtract", [6, 1]), call("nobody")]) is None
    assert found.ran == [5, 6]
    null = await post(client, call("subtract", [5, 1], id=None))
    assert null == {"jsonrpc": "2.0", "result": 4, "id": None}


async def test_each_call_of_a_batch_answers_in_its_place(served) -> None:
    _, client = served
    answers = await post(
        client,
        [
            call("subtract", [1, 1], id="1"),
            call("subtract", [7, 1]),
            {"foo": "boo"},
            call("foo.get", {"name": "myself"}, id="5"),
            call("count", [3], id="9"),
            call("count", [1, True], id=2.5),
        ],
    )
    assert [answer["id"] for answer in answers] == ["1", None, "5", "9", 2.5]
    assert [answer.get("result") for answer in answers] == [0, None, None, [0, 1, 2], None]
    assert [answer.get("error", {}).get("code") for answer in answers] == [None, -32600, -32601, None, -32000]


@pytest.mark.parametrize("id", [2**64 + 1, -(2**63) - 1, 10**300 + 7, 1e30, 2.5, 2**64 - 1])
async def test_ids_come_back_as_they_were_sent(served, id: float) -> None:
    _, client = served
    batch = [
        call("subtract", [1, 1], id=id),
        call("nobody", id=id),
        {"id": id},
        call("subtract", [2, 1], id=1),
    ]
    answers = [*await post(client, batch), await post(client, batch[0]), await post(client, batch[1])]
    found = [answer["id"] for answer in answers]
    assert found == [id, id, id, 1, id, id]
    assert [type(each) for each in found] == [type(each) for each in (id, id, id, 1, id, id)]


async def test_the_calls_of_a_batch_run_together_within_a_limit(served) -> None:
    found, client = served
    answers = await post(client, [call("subtract", [n, 1], id=n) for n in range(300)])
    assert [answer["result"] for answer in answers] == [n - 1 for n in range(300)]
    assert 8 < found.most <= AT_ONCE


async def test_results_that_are_held_are_limited(served) -> None:
    found, client = served
    too_many = await post(client, call("count", [10**9], id=1))
    assert too_many["error"]["data"] == {"code": "too_large", "status": 413}
    assert found.closed.is_set()
    text = "x" * 30_000
    answers = await post(client, [call("predict.odd", [text], id=n) for n in range(3)])
    assert all("result" in answer for answer in answers)
    # More than the limit of results fits into no body here, so they are made of streams.
    answers = await post(client, [call("count", [9000], id=n) for n in range(4)])
    assert ["error" in answer for answer in answers].count(True) >= 1


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
