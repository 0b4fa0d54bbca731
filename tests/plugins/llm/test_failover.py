"""Texts that continue in another worker after theirs was killed: V2, gRPC and OpenAI clients."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from httpx_sse import connect_sse

from inferstream.errors import InvalidRequest
from inferstream.testing import run
from tests.serving import HERE, Running, eventually, write_model

from .llamacpp.conftest import served as served
from .llamacpp.conftest import stand_in as stand_in
from .llamacpp.stand_in import Story, asked, parameters_of, text_of

CODE = """
import os, sys, time

import numpy as np
from llguidance import LLTokenizer

from tests.plugins.llm.llamacpp.stand_in import LIBRARY, Story

sys.modules["llama_cpp"] = LIBRARY
from inferstream.plugins.llm.llamacpp import LlamaCppModel
from inferstream.plugins.llm.llamacpp import model as module


class Network(Story):
    def decode(self, entries):
        time.sleep(0.005)
        return super().decode(entries)

    def logits(self, tokens, prompt):
        logits = np.full(256, -100.0)
        logits[97:123] = np.random.default_rng(tokens).normal(size=26)
        return logits


module.Network = Network


class Model(LlamaCppModel):
    def _build_grammar_tokenizer(self):
        return LLTokenizer("byte")

    def admit(self, request):
        with open(os.environ["TEST_LOG"], "a") as log:
            log.write(f"{os.getpid()}\\n")
        return super().admit(request)
"""

LENGTH = 200
"""Tokens of a text, which takes more than a second."""

LONG = 1500
"""Tokens of a text that takes much longer than a kill."""

GREEDY: dict[str, Any] = {"prompt": "once", "temperature": 0, "max_tokens": LENGTH}


def start_server(folder: Path, workers: int, **extra: Any) -> Running:
    models = folder / "models"
    parameters = {"uri": "./story.gguf", "extra": {"failover_timeout": 20, **extra}}
    at = write_model(
        models, "story", "story.Model", CODE, name="story", parameters=parameters, parallel_workers=workers
    )
    (at / "story.gguf").touch()
    return Running(models, PYTHONPATH=str(HERE.parent), INFERSTREAM_SHUTDOWN_GRACE="2")


@pytest.fixture
def start_story(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def start(workers: int = 2, **extra: Any) -> Running:
        running.append(start_server(tmp_path, workers, **extra))
        return running[-1]

    yield start
    for each in running:
        assert each.stop() == 0, each.text()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = start_server(tmp_path_factory.mktemp("failover"), workers=2, failover="always")
    yield running
    assert running.stop() == 0, running.text()


def kill_worker(server: Running) -> None:
    """Kill the worker of the last call."""
    os.kill(int(server.log.read_text().split()[-1]), signal.SIGKILL)


def events(server: Running, body: dict[str, Any], kills: int = 0) -> list[dict[str, Any]]:
    """The items of a stream whose worker is killed after the 20th, and after each further 20."""
    found: list[dict[str, Any]] = []
    url = f"{server.url}/v2/models/story/generate_stream"
    with httpx.Client(timeout=60) as client, connect_sse(client, "POST", url, json=body) as source:
        assert source.response.status_code == 200, source.response.read()
        for event in source.iter_sse():
            found.append(json.loads(event.data))
            if kills and len(found) % 20 == 0:
                kills -= 1
                kill_worker(server)
    return found


def text_in(items: list[dict[str, Any]]) -> str:
    return "".join(item["text"] for item in items)


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 1, "seed": 7}, {"temperature": 1, "seed": 7, "top_k": 5}]
)
def test_text_is_the_same_after_workers_were_killed(story: Running, options: dict[str, Any]) -> None:
    body = {**GREEDY, **options}
    alone, moved = events(story, body), events(story, body, kills=2)
    assert len(alone) == LENGTH
    assert text_in(moved) == text_in(alone)
    assert moved[-1] == alone[-1]
    assert not any("resumed" in item for item in moved)


def test_stream_that_a_client_has_continued_continues_again(story: Running) -> None:
    alone = events(story, GREEDY)
    written = [item["token_id"] for item in alone[:30]]
    moved = events(story, {**GREEDY, "written_token_ids": json.dumps(written)}, kills=2)
    assert text_in(moved) == text_in(alone[30:])
    assert moved[-1] == alone[-1]


def test_sampled_text_says_that_it_continues(story: Running) -> None:
    items = events(story, {**GREEDY, "temperature": 1, "max_tokens": 2 * LENGTH}, kills=1)
    assert len(items) == 2 * LENGTH
    assert [item["resumed"] for item in items if "resumed" in item] == [True]


def test_openai_client_reads_a_text_that_continues(story: Running) -> None:
    client = openai.OpenAI(base_url=f"{story.url}/openai/v1", api_key="none", timeout=60, max_retries=0)
    options: dict[str, Any] = {"model": "story", "prompt": "once", "temperature": 0, "max_tokens": LENGTH}
    whole = client.completions.create(**options)
    texts = []
    for chunk in client.completions.create(**options, stream=True):
        texts += [choice.text for choice in chunk.choices]
        if len(texts) == 20:
            kill_worker(story)
    assert "".join(texts) == whole.choices[0].text


def test_grpc_client_reads_a_text_that_continues(story: Running) -> None:
    triton = pytest.importorskip("tritonclient.grpc")
    import numpy as np

    found: list[Any] = []

    def take(result: Any, error: Any) -> None:
        found.append(error or result)
        if len(found) == 20:
            kill_worker(story)

    with triton.InferenceServerClient(story.grpc) as client:
        client.start_stream(take)
        given = triton.InferInput("prompt", [1], "BYTES")
        given.set_data_from_numpy(np.array(["once"], object))
        client.async_stream_infer("story", [given], parameters={"temperature": 0, "max_tokens": LENGTH})
        client.stop_stream()
    text = b"".join(result.as_numpy("text")[0] for result in found).decode()
    assert text == text_in(events(story, GREEDY))


def test_whole_text_is_generated_again(story: Running) -> None:
    url, body = f"{story.url}/v2/models/story/generate", {**GREEDY, "max_tokens": 2 * LENGTH}
    expected = httpx.post(url, json=body, timeout=60).json()["text"]
    calls = story.log.read_text().count("\n")
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(httpx.post, url, json=body, timeout=60)
        eventually(lambda: story.log.read_text().count("\n") > calls)
        kill_worker(story)
        assert answer.result().json()["text"] == expected
    assert story.log.read_text().count("\n") == calls + 2


def test_client_that_leaves_ends_a_stream_that_waits(start_story: Callable[..., Running]) -> None:
    server = start_story(workers=1, failover_timeout=600)
    url = f"{server.url}/v2/models/story/generate_stream"
    body = {**GREEDY, "max_tokens": LONG}
    with httpx.Client(timeout=60) as client, connect_sse(client, "POST", url, json=body) as source:
        reader = source.iter_sse()
        next(reader)
        (server.folder / "story" / "story.py").write_text("raise RuntimeError('it cannot load again')")
        kill_worker(server)
        eventually(lambda: "ended by SIGKILL" in server.text())
        assert server.metric("inferstream_calls_in_progress", model="story", version="") == 1
    eventually(lambda: server.metric("inferstream_calls_in_progress", model="story", version="") == 0)


def test_text_that_loses_three_workers_fails(story: Running) -> None:
    items = events(story, {**GREEDY, "max_tokens": LONG}, kills=3)
    assert "error" in items[-1]
    assert 60 < len(items) < LONG


def test_text_waits_for_the_only_worker(start_story: Callable[..., Running]) -> None:
    server = start_story(workers=1)
    alone, moved = events(server, GREEDY), events(server, GREEDY, kills=1)
    assert text_in(moved) == text_in(alone)
    assert "model story: a request continues in another worker" in server.text()


@pytest.mark.parametrize(
    ("failover", "options"),
    [("off", {}), ("greedy", {"temperature": 1}), ("greedy", {"temperature": 1, "top_k": 2})],
)
def test_text_that_would_differ_fails(
    start_story: Callable[..., Running], failover: str, options: dict[str, Any]
) -> None:
    server = start_story(failover=failover)
    items = events(server, {**GREEDY, **options, "max_tokens": LONG}, kills=1)
    assert "error" in items[-1]
    assert 20 < len(items) < LONG


def test_server_stops_while_a_text_waits_for_a_worker(start_story: Callable[..., Running]) -> None:
    server = start_story(workers=1, failover_timeout=600)
    url = f"{server.url}/v2/models/story/generate_stream"
    body = {**GREEDY, "max_tokens": LONG}
    with httpx.Client(timeout=60) as client, connect_sse(client, "POST", url, json=body) as source:
        reader = source.iter_sse()
        next(reader)
        (server.folder / "story" / "story.py").write_text("raise RuntimeError('it cannot load again')")
        kill_worker(server)
        server.begin_stop()
        assert "error" in [json.loads(event.data) for event in reader][-1]
    assert server.stop() == 0, server.text()


async def test_written_tokens_continue_a_format(
    served: Any, monkeypatch: pytest.MonkeyPatch, stand_in: Any
) -> None:
    monkeypatch.setattr(stand_in, "next_token", Story.next_token)
    form = {"type": "regex", "regex": "[a-z]{10}[0-9]{10}"}
    inputs = {"prompt": "hi", "response_format": form}
    async with run(served) as models:
        whole = [each async for each in models.stream("m", asked(inputs, temperature=0))]
        tokens = [parameters_of(each)["token_id"] for each in whole]
        for count in (1, 9, 15):
            written = json.dumps(tokens[:count])
            rest = [
                each
                async for each in models.stream("m", asked(inputs, written_token_ids=written, temperature=0))
            ]
            assert text_of(rest) == text_of(whole)[count:]
            assert parameters_of(rest[-1]) == parameters_of(whole[-1])


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("[]", "is a list of 1 to"),
        ("[256]", "holds token numbers"),
        ("7", "is a list"),
        ("[1, 2, 3]", "leaves no room"),
    ],
)
async def test_bad_written_tokens_are_refused(served: Any, value: str, reason: str) -> None:
    async with run(served) as models:
        with pytest.raises(InvalidRequest, match=f"written_token_ids {reason}"):
            request = asked({"prompt": "hi"}, written_token_ids=value, max_tokens=3, temperature=0)
            [each async for each in models.stream("m", request)]
