"""Calls and batches of calls: their order, their bounds, and their notifications."""

import httpx

from inferstream import App, Application, Refused
from inferstream.plugins.agents.calls import AT_ONCE
from tests.plugins.agents.calling import call, post


async def test_middleware_refuses_one_call_of_a_batch() -> None:
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


async def test_notification_runs_without_response(served) -> None:
    found, client = served
    assert await post(client, call("subtract", [5, 1])) is None
    assert await post(client, call("nobody", [5, 1])) is None
    assert await post(client, [call("subtract", [6, 1]), call("nobody")]) is None
    assert found.ran == [5, 6]
    null = await post(client, call("subtract", [5, 1], id=None))
    assert null == {"jsonrpc": "2.0", "result": 4, "id": None}


async def test_batch_responses_keep_order(served) -> None:
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


async def test_batch_calls_run_concurrently_up_to_limit(served) -> None:
    found, client = served
    answers = await post(client, [call("subtract", [n, 1], id=n) for n in range(300)])
    assert [answer["result"] for answer in answers] == [n - 1 for n in range(300)]
    assert 8 < found.most <= AT_ONCE


async def test_buffered_results_are_limited(served) -> None:
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
