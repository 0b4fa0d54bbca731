"""`HTTPException` of FastAPI and Starlette in model code: its status, detail and headers over every transport."""

import json
from collections.abc import Iterator

import grpc
import httpx
import numpy as np
import openai
import pytest
import tritonclient.grpc as triton
from httpx_sse import connect_sse
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, write_model

APP = """
import asyncio
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


async def find(x):
    raise HTTPException(404, "no such row")


@app.model
async def grouped(x: int) -> int:
    async with asyncio.TaskGroup() as tasks:
        found = tasks.create_task(find(x))
    return found.result()


@app.model
async def grouped_later(x: int) -> AsyncIterator[int]:
    yield x
    raise ExceptionGroup("tasks", [HTTPException(409, "changed")])


@app.model(batch=8, within_ms=1)
def grouped_batch(xs: list[int]) -> list[int]:
    raise ExceptionGroup("tasks", [HTTPException(404, "no such row")])


@app.steps
def grouped_steps(states: list[int]) -> list[int]:
    return [ExceptionGroup("tasks", [HTTPException(404, "no such row")]) for _ in states]


@grouped_steps.admit
def begin(x: int) -> int:
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
    if call.headers.get("x-refuse") == "group":
        raise ExceptionGroup("tasks", [HTTPException(451, "for legal reasons")])
    if call.headers.get("x-refuse"):
        raise HTTPException(451, "for legal reasons")
    return await call_next(call)
"""
MODELS = """
from fastapi import HTTPException
from inferstream import MLModel, decode_args
from inferstream.errors import ModelError
from mlserver.handlers import custom_handler
from starlette.exceptions import HTTPException as StarletteException


class Awaited(MLModel):
    async def predict(self, payload):
        raise HTTPException(410, "gone", {"X-Reason": "old"})


class Grouped(MLModel):
    async def predict(self, payload):
        raise ExceptionGroup("tasks", [ExceptionGroup("inner", [HTTPException(404, "no such row")])])


class GroupedStream(MLModel):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            raise ExceptionGroup("tasks", [ModelError("no such user", 409)])
            yield


class Blocking(MLModel):
    def predict(self, payload):
        raise StarletteException(404, "no such user")


class Decoded(MLModel):
    @decode_args
    def predict(self, x: int) -> int:
        raise HTTPException(422, "x must be positive")

    @custom_handler(rest_path="/own")
    async def own(self):
        raise HTTPException(403, "not yours", {"X-Reason": "own"})

    @custom_handler(rest_path="/blocking")
    def blocking(self):
        raise StarletteException(409, "changed")


class Streamed(MLModel):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            raise HTTPException(429, "slow down", {"Retry-After": "3"})
            yield


class BlockingStream(MLModel):
    def predict_stream(self, payloads):
        for payload in payloads:
            raise HTTPException(429, "slow down", {"Retry-After": "3"})
            yield
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
    body = {"xs": [1]} if model in ("items", "grouped_batch") else {"x": 1}
    return httpx.post(f"{server.url}/v2/models/{model}/{action}", json=body, headers=headers, timeout=20)


ROWS = {
    "plain": (422, "x must be positive"),
    "awaited": (404, "no such user"),
    "generator": (429, "slow down"),
    "items": (418, "odd"),
    "injected": (401, "who are you?"),
    "grouped": (404, "no such row"),
    "grouped_batch": (404, "no such row"),
}


@pytest.mark.parametrize("model", ROWS)
def test_rest_returns_status_and_detail(server: Running, model: str) -> None:
    answered = generate(server, model, "generate_stream" if model == "generator" else "generate")
    assert (answered.status_code, answered.json()["error"]) == ROWS[model]


def test_headers_are_sent_except_server_headers(server: Running) -> None:
    headers = generate(server, "generator", "generate_stream").headers
    assert (headers["retry-after"], headers["x-reason"]) == ("3", "busy")
    assert int(headers["content-length"]) > 7
    assert not {"x-bad", "b", "x-half", "server", "x name", "upgrade"} & {*headers}
    assert generate(server, "injected").headers["www-authenticate"] == "Basic"


def test_running_stream_ends_with_detail(server: Running) -> None:
    url = f"{server.url}/v2/models/later/generate_stream"
    with httpx.Client() as client, connect_sse(client, "POST", url, json={"x": 1}) as events:
        *_, last = events.iter_sse()
    assert json.loads(json.loads(last.data)["error"]) == {"field": "x"}


def test_single_error_group_is_unwrapped_in_steps_and_later_items(server: Running) -> None:
    answered = generate(server, "grouped_steps", "generate_stream")
    assert (answered.status_code, answered.json()["error"]) == (404, "no such row")
    assert '"changed"' in generate(server, "grouped_later", "generate_stream").text


def test_success_status_is_a_failure(server: Running) -> None:
    assert generate(server, "redirected").status_code == 500


@pytest.mark.parametrize("how", ["1", "group"])
def test_middleware_can_raise_it(server: Running, how: str) -> None:
    answered = generate(server, "plain", **{"x-refuse": how})
    assert (answered.status_code, answered.json()["error"]) == (451, "for legal reasons")


@pytest.mark.parametrize(
    ("model", "code"), [("plain", "INVALID_ARGUMENT"), ("awaited", "NOT_FOUND"), ("grouped", "NOT_FOUND")]
)
def test_grpc_code_follows_status(server: Running, model: str, code: str) -> None:
    client = triton.InferenceServerClient(server.grpc)
    tensor = triton.InferInput("x", [1], "INT64")
    tensor.set_data_from_numpy(np.array([1]))
    with pytest.raises(triton.InferenceServerException) as raised:
        client.infer(model, [tensor])
    assert raised.value.status() == f"StatusCode.{code}"
    assert raised.value.message() == ROWS[model][1]


def test_chat_returns_it(server: Running) -> None:
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.PermissionDeniedError, match="not this prompt"):
        client.chat.completions.create(model="chat", messages=[{"role": "user", "content": "x"}])


CLASSES = {
    "Awaited": (410, "gone", "INVALID_ARGUMENT"),
    "Blocking": (404, "no such user", "NOT_FOUND"),
    "Grouped": (404, "no such row", "NOT_FOUND"),
    "GroupedStream": (409, "no such user", "ALREADY_EXISTS"),
    "Decoded": (422, "x must be positive", "INVALID_ARGUMENT"),
    "Streamed": (429, "slow down", "RESOURCE_EXHAUSTED"),
    "BlockingStream": (429, "slow down", "RESOURCE_EXHAUSTED"),
}
BODY = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [1]}]}


@pytest.fixture(scope="module", params=[0, 1], ids=["in process", "worker"])
def classes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("classes") / "models"
    for name in CLASSES:
        write_model(root, name, f"model.{name}", MODELS)
    running = Running(root, "--workers", str(request.param))
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.text()


@pytest.mark.parametrize("action", ["infer", "infer_stream", "generate", "generate_stream"])
@pytest.mark.parametrize("name", CLASSES)
def test_classes_over_rest(classes: Running, name: str, action: str) -> None:
    answered = classes.infer(name, BODY if action.startswith("infer") else {"x": 1}, action)
    assert (answered.status_code, answered.json()["error"]) == CLASSES[name][:2]
    assert answered.headers.get("retry-after") == ("3" if answered.status_code == 429 else None)


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
@pytest.mark.parametrize("name", CLASSES)
def test_classes_over_grpc(classes: Running, name: str, method: str) -> None:
    message = ModelInferRequest(model_name=name)
    message.inputs.add(name="x", datatype="INT64", shape=[1]).contents.int64_contents.append(1)
    with grpc.insecure_channel(classes.grpc) as channel, pytest.raises(grpc.RpcError) as raised:
        call = getattr(GRPCInferenceServiceStub(channel), method)
        [*call(iter([message]), timeout=20)] if "Stream" in method else call(message, timeout=20)
    assert (raised.value.code().name, raised.value.details()) == (CLASSES[name][2], CLASSES[name][1])


@pytest.mark.parametrize("name", CLASSES)
def test_classes_over_a_websocket(classes: Running, name: str) -> None:
    with connect(f"{classes.url.replace('http', 'ws', 1)}/v2/models/{name}/stream") as socket:
        socket.send(json.dumps(BODY))
        assert json.loads(socket.recv(20))["error"] == CLASSES[name][1]


@pytest.mark.parametrize(
    ("path", "found"), [("/own", (403, "not yours", "own")), ("/blocking", (409, "changed", None))]
)
def test_custom_routes(classes: Running, path: str, found: tuple[int, str, str | None]) -> None:
    answered = httpx.post(classes.url + path, json={}, timeout=20)
    assert (answered.status_code, answered.json()["detail"], answered.headers.get("x-reason")) == found
