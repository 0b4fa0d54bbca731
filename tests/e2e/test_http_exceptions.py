"""`HTTPException` of FastAPI and Starlette in model code: its status, detail and headers over every transport."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
import tritonclient.grpc as triton
from httpx_sse import connect_sse

from tests.serving import Running

APP = """
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from fastapi import HTTPException
from starlette.exceptions import HTTPException as StarletteException

from inferstream import App, Depends

app = App()
LATER = {"Retry-After": "3", "X-Reason": "busy", "Content-Length": "7", "X-Bad": "a\\r\\nb: c", "X-Half": "\\ud800",
         "Server": "x", "X Name": "y", "Upgrade": "z"}


@app.model
def plain(x: int) -> int:
    raise HTTPException(status_code=422, detail="x must be positive")


@app.model
async def awaited(x: int) -> int:
    raise StarletteException(404, "no such user")


@app.model
def generator(x: int) -> Iterator[int]:
    raise HTTPException(429, "slow down", LATER)
    yield x


@app.model
async def later(x: int) -> AsyncIterator[int]:
    yield x
    raise HTTPException(409, {"field": "x"})


@app.model(batch=8, within_ms=1)
def items(xs: list[int]) -> list[int]:
    return [HTTPException(418, "odd") if x % 2 else x for x in xs]


def who(name: str = "") -> str:
    raise HTTPException(401, "who are you?", {"WWW-Authenticate": "Basic"})


@app.model
def injected(x: int, user: Annotated[str, Depends(who)]) -> int:
    return x


@app.model
def redirected(x: int) -> int:
    raise HTTPException(302, "elsewhere", {"Location": "/"})


@app.model
async def chat(prompt: str) -> AsyncIterator[str]:
    raise HTTPException(403, "not this prompt")
    yield prompt


@app.middleware
async def guard(call, call_next):
    if call.headers.get("x-refuse"):
        raise HTTPException(451, "for legal reasons")
    return await call_next(call)
"""
MODEL = """
from fastapi import HTTPException
from inferstream import MLModel

class Refusing(MLModel):
    async def predict(self, payload):
        raise HTTPException(410, "gone")
"""


@pytest.fixture(scope="module", params=[0, 1], ids=["in process", "worker"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("served")
    (root / "app.py").write_text(APP)
    (root / "settings.json").write_text(json.dumps({"parallel_workers": request.param}))
    running = Running(root, target=str(root / "app.py"))
    yield running
    assert running.stop() == 0
    assert running.output.read_text().count("Traceback") == 1  # of the redirect


def generate(server: Running, model: str, action: str = "generate", **headers: str) -> httpx.Response:
    body = {"xs": [1]} if model == "items" else {"x": 1}
    return httpx.post(f"{server.url}/v2/models/{model}/{action}", json=body, headers=headers, timeout=20)


ROWS = {
    "plain": (422, "x must be positive"),
    "awaited": (404, "no such user"),
    "generator": (429, "slow down"),
    "items": (418, "odd"),
    "injected": (401, "who are you?"),
}


@pytest.mark.parametrize("model", ROWS)
def test_rest_has_the_status_and_the_detail(server: Running, model: str) -> None:
    answered = generate(server, model, "generate_stream" if model == "generator" else "generate")
    assert (answered.status_code, answered.json()["error"]) == ROWS[model]


def test_headers_are_sent_but_those_of_the_server(server: Running) -> None:
    headers = generate(server, "generator", "generate_stream").headers
    assert (headers["retry-after"], headers["x-reason"]) == ("3", "busy")
    assert int(headers["content-length"]) > 7
    assert not {"x-bad", "b", "x-half", "server", "x name", "upgrade"} & {*headers}
    assert generate(server, "injected").headers["www-authenticate"] == "Basic"


def test_a_stream_that_has_begun_ends_with_the_detail(server: Running) -> None:
    url = f"{server.url}/v2/models/later/generate_stream"
    with httpx.Client() as client, connect_sse(client, "POST", url, json={"x": 1}) as events:
        *_, last = events.iter_sse()
    assert json.loads(json.loads(last.data)["error"]) == {"field": "x"}


def test_a_status_that_is_no_error_is_a_failure(server: Running) -> None:
    assert generate(server, "redirected").status_code == 500


def test_middleware_may_raise_it(server: Running) -> None:
    answered = generate(server, "plain", **{"x-refuse": "1"})
    assert (answered.status_code, answered.json()["error"]) == (451, "for legal reasons")


@pytest.mark.parametrize(("model", "code"), [("plain", "INVALID_ARGUMENT"), ("awaited", "NOT_FOUND")])
def test_grpc_has_the_code_of_the_status(server: Running, model: str, code: str) -> None:
    client = triton.InferenceServerClient(server.grpc)
    tensor = triton.InferInput("x", [1], "INT64")
    tensor.set_data_from_numpy(np.array([1]))
    with pytest.raises(triton.InferenceServerException) as raised:
        client.infer(model, [tensor])
    assert raised.value.status() == f"StatusCode.{code}"
    assert raised.value.message() == ROWS[model][1]


def test_chat_has_it_too(server: Running) -> None:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.PermissionDeniedError, match="not this prompt"):
        client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "x"}])


def test_a_class_may_raise_it(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.py").write_text(MODEL)
    (tmp_path / "m" / "model-settings.json").write_text('{"name": "m", "implementation": "model.Refusing"}')
    server = Running(tmp_path / "m")
    try:
        answered = server.infer("m", {"inputs": []})
        assert (answered.status_code, answered.json()["error"]) == (410, "gone")
    finally:
        server.stop()
