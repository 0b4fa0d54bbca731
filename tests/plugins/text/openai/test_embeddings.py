"""`/v1/embeddings` of functions that return lists, and what the author of another model is told."""

from collections.abc import AsyncIterator

import httpx
import pytest

from inferstream import App, Application, MLModel

app = App()


@app.model
def lists(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 0.5] for text in texts]


@app.model(batch=8)
def rows(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 0.5] for text in texts]


@app.model
def ragged(texts: list[str]) -> list[list[float]]:
    return [[0.5] * len(text) for text in texts]


class Undeclared(MLModel):
    async def predict(self, payload):  # type: ignore[no-untyped-def]
        return "vector"


class UndeclaredStream(MLModel):
    async def predict_stream(self, payloads):  # type: ignore[no-untyped-def]
        yield "vector"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with (
        Application([app, Undeclared, UndeclaredStream]) as application,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(application.asgi), base_url="http://127.0.0.1"
        ) as client,
    ):
        yield client


async def asked(client: httpx.AsyncClient, model: str) -> httpx.Response:
    return await client.post("/v1/embeddings", json={"model": model, "input": ["a", "été"]})


@pytest.mark.parametrize("model", ["lists", "rows"])
async def test_token_lists_have_one_vector_per_list(client: httpx.AsyncClient, model: str) -> None:
    answered = await asked(client, model)
    assert [each["embedding"] for each in answered.json()["data"]] == [[1.0, 0.5], [3.0, 0.5]], answered.text


async def test_ragged_lists_are_not_vectors(client: httpx.AsyncClient) -> None:
    answered = await asked(client, "ragged")
    assert answered.status_code == 500
    assert "no vector for each of 2 texts" in answered.json()["error"]["message"]


@pytest.mark.parametrize("model", ["Undeclared", "UndeclaredStream"])
async def test_undeclared_model_error_explains_what_to_declare(client: httpx.AsyncClient, model: str) -> None:
    said = (await asked(client, model)).json()["error"]["message"]
    assert '"inputs": [{"name": "text", "datatype": "BYTES", "shape": [-1]}]' in said
    assert '"outputs": [{"name": "embedding", "datatype": "FP32", "shape": [-1, -1]}]' in said
