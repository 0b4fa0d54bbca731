"""Exceptions in the code around a model: middleware of apps and of settings, dependencies, hooks of an app.

Each ends its call with an error that is logged once: never as a whole answer, by silence, or by the end of the server.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.pairs import pairwise
from tests.serving import Running, eventually, started_once

APP = """
import asyncio
import os
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import HTTPException
from inferstream import App, Depends, Headers

app = App()
ENDS = {
    "stop": StopIteration,
    "stop-async": StopAsyncIteration,
    "generator-exit": GeneratorExit,
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "cancelled": asyncio.CancelledError,
    "timeout": asyncio.TimeoutError,
    "value": ValueError,
    "http": lambda secret: HTTPException(418, "a teapot"),
    "group": lambda secret: BaseExceptionGroup(secret, [KeyboardInterrupt(), ValueError(secret)]),
}


def end_at(place, headers):
    where, _, end = headers.get("x-end", "").partition(": ")
    if where == place:
        raise ENDS[end]("secret")


async def guard(call, call_next):
    end_at("settings", call.headers)
    return await call_next(call)


@app.middleware
async def watch(call, call_next):
    end_at("before", call.headers)
    call.on_end(lambda _: end_at("at the end", call.headers))
    reply = await call_next(call)
    end_at("after", call.headers)
    return reply


def plain(headers: Headers) -> int:
    end_at("dependency", headers)
    return 1


async def awaited(headers: Headers) -> int:
    end_at("dependency", headers)
    return 1


@app.model
async def words(prompt: str, number: Annotated[int, Depends(awaited)]) -> AsyncIterator[str]:
    yield "a"
    yield "b"


@app.model
def whole(prompt: str, number: Annotated[int, Depends(plain)]) -> str:
    return "a"
"""
ENDS = (
    "stop",
    "stop-async",
    "generator-exit",
    "exit",
    "interrupt",
    "cancelled",
    "timeout",
    "value",
    "http",
    "group",
)
WHERE = ("settings", "before", "after", "dependency", "at the end")
PLACES = {
    "server": {},
    "worker": {"INFERSTREAM_PARALLEL_WORKERS": "1"},
    "front ends": {"INFERSTREAM_FRONTENDS": "2"},
}


@pytest.fixture(scope="module")
def server_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    def start(place: str) -> Running:
        folder = tmp_path_factory.mktemp("around") / "code"
        folder.mkdir()
        (folder / "app.py").write_text(APP)
        (folder / "settings.json").write_text('{"middleware": ["app.guard"]}')
        return Running(folder, target="code/app.py", within=60, **PLACES[place])

    with started_once(start) as servers:
        yield servers


def post(server: Running, path: str, headers: dict[str, str], body: dict) -> str:
    found = httpx.post(server.url + path, headers=headers, json=body, timeout=15)
    assert found.status_code in (200, 418, 500), found.text
    return found.text


def over_rest(server: Running, headers: dict[str, str]) -> str:
    return post(server, "/v2/models/whole/infer", headers, {"inputs": [PROMPT]})


def over_sse(server: Running, headers: dict[str, str]) -> str:
    return post(server, "/v2/models/words/infer_stream", headers, {"inputs": [PROMPT]})


def over_websocket(server: Running, headers: dict[str, str]) -> str:
    url = f"{server.url.replace('http', 'ws')}/v2/models/words/stream"
    with connect(url, additional_headers=headers) as line:
        line.send(json.dumps({"id": "1", "inputs": [PROMPT]}))
        messages = [str(line.recv(15))]
        while '"error"' not in messages[-1] and json.loads(messages[-1])["outputs"]:
            messages.append(str(line.recv(15)))
        return "".join(messages)


def over_grpc(server: Running, headers: dict[str, str], method: str = "ModelInfer") -> str:
    request = ModelInferRequest(model_name="whole" if method == "ModelInfer" else "words")
    request.inputs.add(name="prompt", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"x")
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        try:
            if method == "ModelInfer":
                return str(stub.ModelInfer(request, metadata=[*headers.items()], timeout=15))
            return str([*stub.ModelStreamInfer(iter([request]), metadata=[*headers.items()], timeout=15)])
        except grpc.RpcError as error:
            failure = error
    assert failure.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT), failure
    return f'"error" {failure.details()}'


def over_grpc_stream(server: Running, headers: dict[str, str]) -> str:
    return over_grpc(server, headers, "ModelStreamInfer")


PROMPT = {"name": "prompt", "datatype": "BYTES", "shape": [1], "data": ["x"]}
TRANSPORTS = {
    "REST": over_rest,
    "SSE": over_sse,
    "WebSocket": over_websocket,
    "gRPC": over_grpc,
    "gRPC stream": over_grpc_stream,
}


@pytest.mark.parametrize(
    ("end", "where", "transport", "place"), pairwise(ENDS, WHERE, [*TRANSPORTS], [*PLACES])
)
def test_exit_in_middleware_ends_only_its_call(
    server_in: Callable[[str], Running], where: str, end: str, transport: str, place: str
) -> None:
    server = server_in(place)
    before = len(server.text())
    found = TRANSPORTS[transport](server, {"x-end": f"{where}: {end}"})
    assert ('"error"' in found) == (where != "at the end"), found
    assert "secret" not in found
    assert ".py" not in found
    is_failure = end != "http" or where == "at the end"
    assert is_failure or "a teapot" in found
    eventually(lambda: server.text()[before:].count(" ERROR - ") >= is_failure)
    assert server.text()[before:].count(" ERROR - ") == is_failure
    assert '"error"' not in TRANSPORTS[transport](server, {})


HOOKS = """
import asyncio
import os
from inferstream import App
from app_around import ENDS

app = App()


def end(when):
    where, _, name = os.environ["TEST_HOOK"].partition(": ")
    if when == where:
        raise ENDS[name]("reason")


@app.on_load
def load():
    end("load")


@app.on_unload
async def unload():
    end("unload")


@app.on_unload
def note():
    with open(os.environ["TEST_LOG"], "a") as log:
        print("unloaded", file=log)


@app.model
def whole(prompt: str) -> str:
    return "a"
"""


@pytest.mark.parametrize(
    ("end", "where", "place"),
    [
        ("exit", "load", "worker"),
        ("cancelled", "load", "front ends"),
        ("stop", "load", "worker"),
        ("interrupt", "unload", "worker"),
        ("exit", "unload", "front ends"),
        ("group", "unload", "worker"),
    ],
)
def test_raising_hook_ends_no_process(tmp_path: Path, end: str, where: str, place: str) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "app.py").write_text(HOOKS)
    (folder / "app_around.py").write_text(APP)
    server = Running(folder, target="code/app.py", within=60, TEST_HOOK=f"{where}: {end}", **PLACES[place])
    try:
        if where == "load":
            refused = httpx.post(f"{server.url}/v2/models/whole/generate", json={"prompt": "x"}, timeout=15)
            assert refused.status_code in (404, 503)
            assert "Traceback" not in refused.text
            assert httpx.get(f"{server.url}/v2/health/live", timeout=15).status_code == 200
        else:
            assert '"error"' not in over_rest(server, {})
    finally:
        status = server.stop()
    assert status == 0, server.text()
    assert server.noted("unloaded") == (where == "unload")
