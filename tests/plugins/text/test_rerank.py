"""Which models rank, and how ties are ordered."""

from typing import Any

import httpx
import pytest

from inferstream import App
from inferstream.ext.runtimes import Signature
from inferstream.plugins.text.rerank import find_ranking
from inferstream.testing import run
from inferstream.types import MetadataTensor, Parameters

QUERY = MetadataTensor(name="q", datatype="BYTES", shape=[1])
DOCUMENTS = MetadataTensor(name="d", datatype="BYTES", shape=[-1])
SCORES = MetadataTensor(name="s", datatype="FP32", shape=[-1])
OPTIONAL = MetadataTensor(name="o", datatype="BOOL", shape=[1], parameters=Parameters(optional=True))
BASE64 = MetadataTensor(name="b", datatype="BYTES", shape=[-1], parameters=Parameters(content_type="base64"))
NUMBER = MetadataTensor(name="n", datatype="INT64", shape=[1])


@pytest.mark.parametrize(
    ("inputs", "outputs", "ranks"),
    [
        ((QUERY, DOCUMENTS), (SCORES,), True),
        ((QUERY, DOCUMENTS, OPTIONAL), (SCORES,), True),
        ((OPTIONAL, QUERY, DOCUMENTS), (SCORES, SCORES), True),
        ((QUERY, DOCUMENTS, NUMBER), (SCORES,), False),
        ((DOCUMENTS, QUERY), (SCORES,), False),
        ((QUERY, BASE64), (SCORES,), False),
        ((QUERY, DOCUMENTS), (QUERY,), False),
        ((QUERY, DOCUMENTS), (), False),
        ((DOCUMENTS,), (SCORES,), False),
        (None, None, False),
    ],
)
def test_ranking_models_are_detected(inputs: Any, outputs: Any, ranks: bool) -> None:
    assert (find_ranking(Signature(inputs, outputs)) is not None) is ranks


app = App()


@app.model
def equal(query: str, documents: list[str]) -> list[float]:
    return [0.5] * len(documents)


async def test_documents_with_equal_scores_keep_order() -> None:
    async with run(app) as running:
        transport = httpx.ASGITransport(running.application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            body = {"query": "a", "documents": ["x", "y", "z"], "model": "equal"}
            answer = (await client.post("/rerank", json=body)).json()
            assert [result["index"] for result in answer["results"]] == [0, 1, 2]
