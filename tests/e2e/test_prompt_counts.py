"""Tokens of the prompt in the audit log and the metrics, for streams that end before the model ends them."""

import json
import queue
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from websockets.sync.client import connect

from tests.serving import Running, eventually

APP = """
import time
from collections.abc import Iterator

from inferstream import App, Token, Usage

app = App()


@app.model
def counted(prompt: str) -> Iterator[Token]:
    "Counts its prompt with the first token, and writes on and on."
    yield Token("a ", usage=Usage(11))
    while True:
        time.sleep(0.01)
        yield Token("b ")
"""


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("counts")
    (folder / "app.py").write_text(APP)
    settings = {"audit_log": str(folder / "audit.jsonl"), "parallel_workers": workers}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder / "models", target="app.py")
    yield running
    assert running.stop() == 0, running.text()


SAID = [{"role": "user", "content": "x"}]
STOPS = {
    "/v1/chat/completions": {"messages": SAID, "stop": "b b b"},
    "/v1/completions": {"prompt": "x", "stop": "b b b"},
    "/v1/messages": {"messages": SAID, "stop_sequences": ["b b b"], "max_tokens": 99},
    "/api/generate": {"prompt": "x", "options": {"stop": ["b b b"]}},
    "/generate_stream": {"inputs": "x", "parameters": {"stop": ["b b b"], "details": True}},
    "/v1/responses": {"input": "x", "max_output_tokens": 4},
}


def stop(path: str, **more: Any) -> Callable[[Running], None]:
    def ask(served: Running) -> None:
        body = {"model": "counted", **STOPS[path], **more}
        answer = httpx.post(served.url + path, json=body, timeout=20)
        assert answer.status_code == 200, answer.text

    return ask


def leave(served: Running) -> None:
    path = "/v2/models/counted/generate_stream"
    with httpx.stream("POST", served.url + path, json={"prompt": "x"}, timeout=20) as response:
        events = (line for line in response.iter_lines() if line.startswith("data:"))
        assert [next(events) for _ in range(3)]


def leave_grpc(served: Running) -> None:
    prompt = triton.InferInput("prompt", [1], "BYTES")
    prompt.set_data_from_numpy(np.array(["x"], object))
    answers: queue.Queue[Any] = queue.Queue()
    with triton.InferenceServerClient(served.grpc) as client:
        client.start_stream(lambda result, error: answers.put(error or result))
        client.async_stream_infer("counted", [prompt])
        assert [answers.get(timeout=20).as_numpy("output") is None for _ in range(3)]
        client.stop_stream(cancel_requests=True)


def leave_socket(served: Running) -> None:
    with connect(served.url.replace("http", "ws", 1) + "/v2/models/counted/stream") as socket:
        socket.send(json.dumps({"prompt": "x"}))
        assert [socket.recv(timeout=20) for _ in range(3)]


WAYS = {f"{path} {more}": stop(path, **more) for path in STOPS for more in ({}, {"stream": True})}
WAYS = {
    name: way for name, way in WAYS.items() if not name.startswith("/generate") or "stream" not in name[16:]
}


@pytest.mark.parametrize(
    "way", [*WAYS.values(), leave, leave_grpc, leave_socket], ids=[*WAYS, "sse", "grpc", "socket"]
)
def test_prompt_counts_however_stream_ends(served: Running, way: Callable[[Running], None]) -> None:
    audit = served.folder.parent / "audit.jsonl"

    def lines() -> list[dict[str, Any]]:
        found = [json.loads(line) for line in audit.read_text().splitlines()] if audit.exists() else []
        return [line for line in found if line["model"] == "counted"]

    before, counted = len(lines()), served.metric("inferstream_input_tokens_total", model="counted")
    way(served)
    line = eventually(lambda: lines()[before:])[0]
    assert line["tokens"] >= 11 + 3
    assert served.metric("inferstream_input_tokens_total", model="counted") == counted + 11


@pytest.mark.parametrize(
    ("parameters", "reason", "tokens"),
    [({"stop": ["b b b"]}, "stop_sequence", 4), ({"max_new_tokens": 3}, "length", 3)],
)
def test_tgi_returns_prompt_length_and_finish_reason(
    served: Running, parameters: dict[str, Any], reason: str, tokens: int
) -> None:
    body = {"inputs": "x", "parameters": {**parameters, "details": True}}
    whole = httpx.post(f"{served.url}/generate", json=body, timeout=20).json()["details"]
    assert (whole["finish_reason"], whole["generated_tokens"]) == (reason, tokens)
    *_, last = httpx.post(f"{served.url}/generate_stream", json=body, timeout=20).text.strip().splitlines()
    details = json.loads(last.removeprefix("data:"))["details"]
    assert details == {**details, "finish_reason": reason, "generated_tokens": tokens, "input_length": 11}
