"""Cohere's client of its API's second version, of which the server has rerank."""

from typing import Any

import httpx
import pytest

from tests.serving import Running

from .rows import methods_of, without_a_row

cohere = pytest.importorskip("cohere")

from cohere.v2.client import V2Client

CALLS = ("rerank",)
SKIPPED = {
    **dict.fromkeys(("chat", "chat_stream"), "Cohere's chat; OpenAI's and Anthropic's are served"),
    "embed": "Cohere's embeddings; OpenAI's are served",
    "parse": "it reads documents",
}
"""Methods that no test calls, and why."""


def test_every_method_has_a_row() -> None:
    assert without_a_row(methods_of(V2Client), CALLS, SKIPPED) == []


def test_rerank(surface: Running) -> None:
    with httpx.Client(timeout=30) as transport:
        client: Any = cohere.ClientV2(api_key="none", base_url=surface.url, httpx_client=transport)
        answer = client.rerank(model="rank", query="a b", documents=["a", "a b", "c"])
    assert [(each.index, each.relevance_score) for each in answer.results] == [(1, 2.0), (0, 1.0), (2, 0.0)]
