"""An app in programs of others: mounted in FastAPI, and beside classes of models."""

import httpx
import pytest
from fastapi import FastAPI

from inferstream import App, Application, MLModel, testing
from inferstream.errors import InvalidSettings

app = App()


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b


class Echo(MLModel):
    async def predict(self, payload):  # type: ignore[no-untyped-def]
        return "echo"


async def test_an_app_is_mounted_in_fastapi() -> None:
    application = Application(app)
    host = FastAPI(lifespan=application.lifespan)
    host.mount("/models", application.asgi)
    async with host.router.lifespan_context(host):
        transport = httpx.ASGITransport(host)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            answered = await client.post("/models/v2/models/add/generate", json={"a": 2})
            refused = await client.post("/models/v2/models/add/generate", json={"a": "2"})
    assert answered.json()["output"] == 3
    assert refused.status_code == 400


async def test_an_app_is_served_beside_classes() -> None:
    async with testing.run([app, Echo]) as client:
        assert (await client.infer("add", a=1)).outputs[0].data.root == [2]
        assert (await client.infer("Echo", x=1)).outputs[0].data.root == ["echo"]
    other = App()
    other.model(add)
    with pytest.raises(InvalidSettings, match='two models have the name "add"'):
        Application([app, other])


def test_a_program_that_blocks_runs_an_app_too() -> None:
    with testing.run(app) as client:
        assert client.infer("add", a=1, b=4).outputs[0].data.root == [5]
        assert [each.outputs[0].data.root for each in client.stream("add", a=1)] == [[2]]
