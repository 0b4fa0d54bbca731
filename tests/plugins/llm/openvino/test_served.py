"""OpenVINO GenAI behind the running server, in its process and in a worker: REST, SSE, OpenAI and gRPC clients."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from httpx_sse import connect_sse

from tests.serving import Running, eventually

from .smollm2 import ANSWER, CAPITAL, path

SMOLLM2 = path()
BODY = {"prompt": "Once upon a time", "temperature": 0}


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("openvino") / "models"
    (folder / "story").mkdir(parents=True)
    extra = {"max_context": 512}
    settings = {"name": "story", "implementation": "openvino", "max_active": 4}
    settings["parameters"] = {"uri": str(SMOLLM2), "extra": extra}
    (folder / "story" / "model-settings.json").write_text(json.dumps(settings))
    running = Running(folder, within=180, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


def events(server: Running, **body: Any) -> Iterator[dict[str, Any]]:
    url = f"{server.url}/v2/models/story/generate_stream"
    with httpx.Client(timeout=120) as client, connect_sse(client, "POST", url, json=body) as source:
        assert source.response.status_code == 200, source.response.read()
        for event in source.iter_sse():
            yield json.loads(event.data)


def test_stream_equals_whole_text(served: Running) -> None:
    items = list(events(served, **BODY, max_tokens=8))
    whole = httpx.post(f"{served.url}/v2/models/story/generate", json={**BODY, "max_tokens": 8}, timeout=120)
    assert len(items) == 8
    assert "".join(item["text"] for item in items) == whole.json()["text"]


def test_openai_client_chats(served: Running) -> None:
    client = openai.OpenAI(base_url=f"{served.url}/openai/v1", api_key="none", timeout=120)
    options: dict[str, Any] = {"model": "story", "messages": CAPITAL["messages"], "temperature": 0}
    chunks = list(client.chat.completions.create(**options, stream=True, logprobs=True))
    deltas = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(deltas) == ANSWER
    assert len([each for each in deltas if each]) > 3
    stopped = client.chat.completions.create(**options, stop=[" France"])
    assert stopped.choices[0].message.content == "The capital of"
    assert stopped.choices[0].finish_reason == "stop"
    schema = {"name": "number", "strict": True, "schema": {"type": "boolean"}}
    form: Any = {"type": "json_schema", "json_schema": schema}
    formed = client.chat.completions.create(**options, response_format=form)
    assert formed.choices[0].message.content in ("true", "false")
    with pytest.raises(openai.BadRequestError, match="logit_bias is not taken"):
        client.chat.completions.create(**options, logit_bias={"5": 1})


def test_grpc_client_streams(served: Running) -> None:
    triton = pytest.importorskip("tritonclient.grpc")
    import numpy as np

    found: list[Any] = []
    with triton.InferenceServerClient(served.grpc) as client:
        client.start_stream(lambda result, error: found.append(error or result))
        given = triton.InferInput("prompt", [1], "BYTES")
        given.set_data_from_numpy(np.array([BODY["prompt"]], object))
        client.async_stream_infer("story", [given], parameters={"temperature": 0, "max_tokens": 5})
        client.stop_stream()
    text = b"".join(result.as_numpy("text")[0] for result in found).decode()
    assert text == "".join(item["text"] for item in events(served, **BODY, max_tokens=5))
    assert len(found) == 5


def test_clients_that_leave_make_room(served: Running) -> None:
    def leave(index: int) -> None:
        stream = events(served, prompt=f"Chapter {index}", ignore_eos=True)
        next(stream)
        stream.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(leave, range(8)))
    assert [item["text"] for item in events(served, **BODY, max_tokens=3)]
    eventually(lambda: served.metric("inferstream_streams_active", model="story") == 0)
