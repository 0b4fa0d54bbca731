"""Rerank and score: Cohere's own client, and the forms of Jina's, TEI's and vLLM's clients, from a function."""

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import cohere
import httpx
import pytest
from cohere.v2.client import V2Client

from tests.serving import Running, eventually
from tests.texts import idle

APP = """
import os
import time

from inferstream import App

app = App()


@app.model
def rank(query: str, documents: list[str]) -> list[float]:
    "The part of the words of the query that each document has."
    if query == "fail":
        raise ValueError("canary-/etc/secret-path")
    if query == "few":
        return [1.0]
    if query == "nan":
        return [float("nan")] * len(documents)
    words = set(query.split())
    return [len(words & set(document.split())) / len(words) for document in documents]


@app.model
async def waiting(query: str, documents: list[str]) -> list[float]:
    import asyncio

    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(f"start {query}\\n")
        file.flush()
        try:
            await asyncio.sleep(60)
        finally:
            file.write(f"finally {query}\\n")
    return [0.0] * len(documents)


@app.model
def words(prompt: str) -> str:
    return prompt
"""

QUERY = "red green blue"
DOCUMENTS = ["red", "no colour", "blue green red", "green and red"]
ORDER = [2, 3, 0, 1]
SCORES = [1.0, 2 / 3, 1 / 3, 0.0]


@pytest.fixture(scope="module")
def serving(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("rerank") / "models"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    settings = {"parallel_workers": workers, "default_model": "rank"}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def test_cohere_client(serving: Running) -> None:
    with cohere.ClientV2(api_key="none", base_url=serving.url) as asked:
        answer = asked.rerank(model="rank", query=QUERY, documents=DOCUMENTS)
        assert [result.index for result in answer.results] == ORDER
        assert [result.relevance_score for result in answer.results] == pytest.approx(SCORES)
        assert answer.id
        assert answer.meta.api_version.version == "2"
        options = {"top_n": 2, "max_tokens_per_doc": 9, "priority": 3}
        first = asked.rerank(model="rank", query=QUERY, documents=DOCUMENTS, **options)
        assert [result.index for result in first.results] == ORDER[:2]


def test_cohere_legacy_client(serving: Running) -> None:
    documents = [{"text": text, "id": str(at)} for at, text in enumerate(DOCUMENTS)]
    with cohere.Client(api_key="none", base_url=serving.url) as asked:
        options = {"model": "rank", "top_n": 1, "return_documents": True}
        [result] = asked.rerank(query=QUERY, documents=documents, **options).results
        assert (result.index, result.document.text, result.document.id) == (2, DOCUMENTS[2], "2")
        assert asked.rerank(query=QUERY, documents=DOCUMENTS).results[0].document is None


async def test_cohere_async_client(serving: Running) -> None:
    async with cohere.AsyncClientV2(api_key="none", base_url=serving.url) as asked:
        answer = await asked.rerank(model="rank", query=QUERY, documents=DOCUMENTS)
        assert [result.index for result in answer.results] == ORDER
        with pytest.raises(cohere.errors.NotFoundError, match="nobody not found"):
            await asked.rerank(model="nobody", query=QUERY, documents=DOCUMENTS)


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank", "/openai/v1/rerank"])
def test_jina_format(serving: Running, path: str) -> None:
    body = {"model": "rank", "query": QUERY, "documents": DOCUMENTS, "top_n": 1, "return_documents": True}
    answer = httpx.post(serving.url + path, json=body).json()
    assert answer["model"] == "rank"
    assert answer["results"] == [{"index": 2, "relevance_score": 1.0, "document": {"text": DOCUMENTS[2]}}]
    assert answer["usage"] == {"prompt_tokens": 0, "total_tokens": 0}


def test_tei_format(serving: Running) -> None:
    """It names no model."""
    body = {"query": QUERY, "texts": DOCUMENTS, "raw_scores": False}
    answer = httpx.post(f"{serving.url}/rerank", json=body).json()
    assert [result["index"] for result in answer] == ORDER
    assert [result["score"] for result in answer] == pytest.approx(SCORES)
    assert answer[0].keys() == {"index", "score"}
    answer = httpx.post(f"{serving.url}/rerank", json={**body, "return_text": True}).json()
    assert [result["text"] for result in answer] == [DOCUMENTS[at] for at in ORDER]


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
def test_scores(serving: Running, path: str) -> None:
    def scores(one: object, other: object) -> list[float]:
        body = {"model": "rank", "text_1": one, "text_2": other}
        answer = httpx.post(serving.url + path, json=body).json()
        assert (answer["object"], answer["model"]) == ("list", "rank")
        assert [each["index"] for each in answer["data"]] == [*range(len(answer["data"]))]
        return [each["score"] for each in answer["data"]]

    assert scores("red", "red") == [1.0]
    assert scores("red", ["red", "blue"]) == [1.0, 0.0]
    assert scores(["red", "blue", "a b"], ["red", "green", "b"]) == [1.0, 0.0, 0.5]


@pytest.mark.parametrize(
    ("path", "changes", "status", "message"),
    [
        ("/rerank", {"query": None}, 400, "query: is missing"),
        ("/rerank", {"documents": []}, 400, "documents: must not be empty"),
        ("/rerank", {"documents": None}, 400, "The body needs documents, as for Cohere and Jina, or texts"),
        ("/rerank", {"texts": ["a"]}, 400, "The body needs documents, as for Cohere and Jina, or texts"),
        (
            "/rerank",
            {"documents": ["a"] * 2049},
            400,
            "documents: holds 2049 texts, at most 2048 are allowed",
        ),
        ("/rerank", {"documents": ["a", 3]}, 400, "documents[1]: must be an object"),
        ("/rerank", {"documents": [{"title": "a"}]}, 400, "documents[0].text: is missing"),
        ("/rerank", {"top_n": 0}, 400, "top_n: must be at least 1, got 0"),
        ("/rerank", {"top_n": 2**70}, 400, "top_n: must be at most"),
        ("/rerank", {"rank_fields": ["a"]}, 400, "rank_fields: is not taken"),
        ("/rerank", {"model": "words"}, 400, "model: words does not rank"),
        ("/rerank", {"model": "nobody"}, 404, "Model nobody not found"),
        ("/rerank", {"query": "fail"}, 500, "failed"),
        ("/rerank", {"query": "few"}, 500, "1 scores for 4 documents"),
        ("/rerank", {"query": "nan"}, 500, "a score that is not finite"),
        ("/score", {"text_1": ["a", "b"]}, 400, "text_2: holds 1 texts, and text_1 2"),
        ("/score", {"text_1": []}, 400, "text_1: must be a string or a list of strings"),
    ],
)
def test_errors(serving: Running, path: str, changes: dict, status: int, message: str) -> None:
    body = {"model": "rank", "query": QUERY, "documents": DOCUMENTS, "text_1": "a", "text_2": "b"}
    answer = httpx.post(serving.url + path, json={**body, **changes})
    assert answer.status_code == status
    document = answer.json()
    assert message in document["message"]
    assert document["error"] == document["message"]
    assert document["error_type"]
    assert "canary" not in answer.text


def test_invalid_json_body(serving: Running) -> None:
    for body in (b"{", b"[]", b'{"query": "a", "query": "b"}'):
        assert httpx.post(f"{serving.url}/rerank", content=body).status_code == 400


def test_several_ranking_models_need_a_name(tmp_path: Path, start: Callable[..., Running]) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "app.py").write_text(APP)
    running = start(tmp_path / "models")
    answer = httpx.post(f"{running.url}/rerank", json={"query": QUERY, "texts": DOCUMENTS})
    assert answer.status_code == 400
    assert "The request names no model, and rank, waiting rank." in answer.text


def test_disconnect_ends_model(serving: Running) -> None:
    body = {"model": "waiting", "query": "leaving", "documents": ["a"]}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{serving.url}/rerank", json=body, timeout=1)
    eventually(lambda: serving.noted("finally leaving"), 20)
    eventually(lambda: idle(serving))


UNSERVED = {
    "chat": "Cohere's chat; OpenAI's and Anthropic's are served",
    "chat_stream": "the same, streamed",
    "embed": "Cohere's embeddings; OpenAI's are served",
    "parse": "reads documents",
    "with_raw_response": "another form of the same requests",
}
"""Public methods of Cohere's client that no test here calls, and why."""


def test_every_cohere_client_method_is_tested_or_excused() -> None:
    public = {name for name, _ in inspect.getmembers(V2Client) if not name.startswith("_")}
    assert public == {"rerank"} | UNSERVED.keys()
