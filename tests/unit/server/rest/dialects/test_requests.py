"""Requests that are cancelled by their ids."""

import asyncio

from tests.asgi import asking, waiting

BODY = {"id": "mine", "inputs": [{"name": "x", "shape": [1], "datatype": "INT64", "data": [1]}]}


async def test_running_request_is_cancelled_by_id() -> None:
    model = waiting()
    async with asking(model) as (client, _), asyncio.timeout(20):
        call = asyncio.create_task(client.post("/v2/models/waiting/infer", json=BODY))
        await model.begun.wait()
        assert (await client.delete("/v2/requests/other")).status_code == 404
        assert not call.done()
        assert (await client.delete("/v2/requests/mine")).json() == {"id": "mine", "cancelled": 1}
        await model.ended.wait()
        assert (await call).status_code == 499
        assert (await client.delete("/v2/requests/mine")).status_code == 404


async def test_other_methods_are_not_allowed() -> None:
    async with asking(waiting()) as (client, _):
        refused = await client.get("/v2/requests/mine")
        assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE")
