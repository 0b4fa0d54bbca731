"""What clients of language models need to know, over every API: silence, overflows, usage, models and broken vectors."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serving import Running, eventually

APP = """
import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferstream import App, Token, Usage
from inferstream.plugins.text.context_length import report_overflow

app = App()


@app.model
async def late(prompt: str) -> AsyncIterator[str]:
    "Says nothing until the file that the prompt names is there."
    name = prompt.split()[-1]
    while not Path(os.environ["GATES"], name).exists():
        await asyncio.sleep(0.01)
    if "fail" in prompt:
        raise ValueError("canary")
    yield "do"
    yield "ne"


@app.model
def full(prompt: str) -> Iterator[str]:
    raise report_overflow("prompt", 5000, 2048)
    yield ""


@app.model
def counted(prompt: str) -> Iterator[Token]:
    yield Token("a ")
    yield Token("b")
    yield Token(finish_reason="length" if "long" in prompt else "stop", usage=Usage(11, 7))


@app.model
def vectors(texts: list[str]) -> list[list[float]]:
    return [[float(text), 1.0] for text in texts]


@app.model
def arrays(texts: list[str]) -> NDArray[np.float64]:
    return np.array([[float(text), 1.0] for text in texts], np.float64)
"""


def bodies(model: str, prompt: str) -> dict[str, dict]:
    """A request for a stream to each API that has one."""
    messages = [{"role": "user", "content": prompt}]
    return {
        "/v1/chat/completions": {"model": model, "messages": messages, "stream": True},
        "/openai/v1/chat/completions": {"model": model, "messages": messages, "stream": True},
        "/v1/completions": {"model": model, "prompt": prompt, "stream": True},
        "/v1/responses": {"model": model, "input": prompt, "stream": True},
        "/v1/messages": {"model": model, "messages": messages, "max_tokens": 9, "stream": True},
        "/api/chat": {"model": model, "messages": messages},
        "/api/generate": {"model": model, "prompt": prompt},
        "/generate_stream": {"model": model, "inputs": prompt},
        "/generate": {"model": model, "prompt": prompt, "stream": True},
        f"/v2/models/{model}/generate_stream": {"prompt": prompt},
    }


PATHS = [*bodies("late", "x")]
WHOLE = PATHS[:7]


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gates")


@pytest.fixture(scope="module")
def served(workers: int, gates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    yield from start(tmp_path_factory.mktemp("facts"), workers, gates, sse_heartbeat=0.05)


@pytest.fixture(scope="module")
def quiet(workers: int, gates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose heartbeats no test waits for."""
    yield from start(tmp_path_factory.mktemp("quiet"), workers, gates)


def start(folder: Path, workers: int, gates: Path, **settings: float) -> Iterator[Running]:
    (folder / "app.py").write_text(APP)
    (folder / "settings.json").write_text(json.dumps({**settings, "parallel_workers": workers}))
    running = Running(folder / "models", target="app.py", GATES=str(gates))
    yield running
    assert running.stop() == 0, running.text()


def ask(served: Running, model: str, prompt: str, path: str, **more: object) -> httpx.Response:
    body = {**bodies(model, prompt)[path], **more}
    return httpx.post(served.url + path, json=body, timeout=20)


@pytest.mark.parametrize("resumable", [False, True])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("ends", ["well", "fail"])
def test_silent_stream_starts_with_head_and_heartbeats(
    served: Running, gates: Path, path: str, ends: str, resumable: bool, request: pytest.FixtureRequest
) -> None:
    if resumable and not path.startswith("/v2"):
        pytest.skip("only V2 streams are resumable")
    gate = gates / re.sub(r"\W", "-", request.node.name)
    body = bodies("late", f"{ends} {gate.name}")[path]
    headers = {"prefer": "resumable"} if resumable else {}
    text = ""
    with httpx.stream("POST", served.url + path, json=body, headers=headers, timeout=20) as response:
        assert response.status_code == 200
        assert ("preference-applied" in response.headers) == resumable
        for piece in response.iter_text():
            text += piece
            if not gate.exists() and text.count("\n") > 4:  # several heartbeats
                gate.touch()
    if path.startswith("/api"):
        lines = [json.loads(line) for line in text.splitlines()]
        pieces = [line.get("response") or line.get("message", {}).get("content", "") for line in lines]
        assert ("".join(pieces), lines[-1].get("done")) == (("done", True) if ends == "well" else ("", None))
        assert ("error" in lines[-1]) == (ends == "fail")
        return
    beat = "event: ping" if path == "/v1/messages" else ":"
    assert text.startswith(beat)
    assert bool(re.search('"do"(?s:.*)"ne"', text)) == (ends == "well")
    assert bool(re.search('"error": ?["{]', text)) == (ends == "fail")
    assert "canary" not in text


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("path", "status", "field", "value"),
    [
        *((path, 400, "error.code", "context_length_exceeded") for path in PATHS[:4]),
        *(
            (path, 400, "error.message", "maximum context length is 2048 tokens.* 5000 tokens")
            for path in PATHS[:4]
        ),
        ("/v1/messages", 400, "error.type", "invalid_request_error"),
        ("/v1/messages", 400, "error.message", "^prompt is too long: 5000 tokens > 2048 maximum$"),
        ("/api/chat", 400, "error", "^the input length exceeds the context length"),
        ("/api/generate", 400, "error", "^the input length exceeds the context length"),
        ("/generate_stream", 422, "error", "`inputs` must have less than 2048 input tokens. Given: 5000"),
        ("/v2/models/full/generate_stream", 400, "error", "maximum context length is 2048 tokens"),
    ],
)
def test_oversized_prompt(
    quiet: Running, path: str, status: int, field: str, value: str, whole: bool
) -> None:
    stream = {"stream": not whole} if path.startswith(("/v1", "/openai", "/api")) else {}
    answer = ask(quiet, "full", "x", path.replace("late", "full"), **stream)
    assert answer.status_code == status, answer.text
    found = answer.json()
    for name in field.split("."):
        found = found[name]
    assert re.search(value, found), found


def usage_of(path: str, text: str, streamed: bool) -> tuple[int, int]:
    """Tokens of the prompt and of the text."""
    if path.startswith("/api"):
        last = json.loads(text.splitlines()[-1])
        return last["prompt_eval_count"], last["eval_count"]
    documents = (
        [json.loads(data) for data in re.findall(r"^data: ?(\{.*)", text, re.M)]
        if streamed
        else [json.loads(text)]
    )
    found = [
        usage for each in documents if (usage := each.get("usage") or each.get("response", {}).get("usage"))
    ]
    usage = found[-1]
    names = (
        ("prompt_tokens", "completion_tokens")
        if "prompt_tokens" in usage
        else ("input_tokens", "output_tokens")
    )
    return usage[names[0]], usage[names[1]]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("prompt", ["short", "long"])
@pytest.mark.parametrize("path", WHOLE)
def test_usage_comes_from_model(served: Running, path: str, prompt: str, streamed: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if streamed and "completions" in path else {}
    answer = ask(served, "counted", prompt, path, stream=streamed, **options)
    assert answer.status_code == 200, answer.text
    assert usage_of(path, answer.text, streamed) == (11, 7)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e300"])
@pytest.mark.parametrize("model", ["vectors", "arrays"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": ["0.5", None]}),
        ("/v1/embeddings", {"input": ["0.5", None], "encoding_format": "base64"}),
        ("/v1/embeddings", {"input": ["0.5", None], "dimensions": 1}),
        ("/openai/v1/embeddings", {"input": None}),
        ("/api/embed", {"input": ["0.5", None]}),
        ("/api/embeddings", {"prompt": None}),
    ],
)
def test_non_finite_vector_is_an_error(
    served: Running, path: str, body: dict, model: str, value: str
) -> None:
    def post(text: str) -> httpx.Response:
        filled = {
            key: [each or text for each in got] if isinstance(got, list) else got or text
            for key, got in body.items()
        }
        return httpx.post(served.url + path, json={"model": model, **filled}, timeout=20)

    broken = post(value)
    assert broken.status_code == 500, broken.text
    assert "not finite" in broken.text
    assert post("0.25").status_code == 200


def test_ollama_lists_models(served: Running) -> None:
    lists = {path: httpx.get(served.url + path).json()["models"] for path in ("/api/tags", "/api/ps")}
    for models in lists.values():
        digests = [model["digest"] for model in models]
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
        assert len({*digests}) == len(digests) == 5
    assert [model["digest"] for model in lists["/api/tags"]] == [
        model["digest"] for model in lists["/api/ps"]
    ]
    for model in lists["/api/ps"]:
        assert {"expires_at", "size_vram", "context_length"} <= model.keys()
    version = httpx.get(f"{served.url}/api/version").json()["version"]
    assert tuple(map(int, version.split("."))) >= (0, 6, 4)


@pytest.mark.parametrize(
    "body", [{"name": "counted"}, {"model": "counted:latest"}, {"name": "counted:latest"}]
)
def test_ollama_shows_a_model_by_either_name(served: Running, body: dict) -> None:
    shown = httpx.post(f"{served.url}/api/show", json={"model": "counted"})
    assert shown.json()["model_info"]["general.architecture"] == "unknown"
    assert httpx.post(f"{served.url}/api/show", json=body).json() == shown.json()


def test_ollama_show_requires_name(served: Running) -> None:
    refused = httpx.post(f"{served.url}/api/show", json={})
    assert (refused.status_code, refused.json()["error"]) == (400, "model: is missing")


def test_mcp_works_with_trailing_slash(served: Running) -> None:
    parameters = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
    accept = {"accept": "application/json, text/event-stream"}
    answers = [
        httpx.post(served.url + path, json=body, headers=accept) for path in ("/mcp", "/mcp/", "/mcp//")
    ]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.text for answer in answers}) == 1


def test_disconnect_ends_silent_stream(served: Running, gates: Path) -> None:
    def running() -> float:
        return served.metric("inferstream_calls_in_progress", model="late")

    body = bodies("late", "well never")["/v1/chat/completions"]
    with httpx.stream("POST", f"{served.url}/v1/chat/completions", json=body, timeout=20) as response:
        next(response.iter_raw())
        eventually(lambda: running() == 1)
    eventually(lambda: running() == 0)
