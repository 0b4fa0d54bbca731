"""However a client leaves, nothing of its connection or its call is left to the garbage collector."""

import json
from collections.abc import Callable, Iterator

import grpc
import httpx
import pytest
from httpx_sse import connect_sse
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, tensor

APP = """
import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Iterator
from types import FrameType, TracebackType

from inferstream import App

app = App()


def note(what: str) -> None:
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(what + "\\n")


@app.model
def blocking(name: str) -> Iterator[str]:
    try:
        while True:
            time.sleep(0.01)
            yield name
    finally:
        note("left " + name)


@app.model
def eager(name: str) -> Iterator[list[str]]:
    try:
        while True:
            yield [name]
    finally:
        note("left " + name)


@app.model
async def waiting(name: str) -> AsyncIterator[str]:
    try:
        while True:
            await asyncio.sleep(0.01)
            yield name
    finally:
        note("left " + name)


@app.model
async def begin() -> int:
    await asyncio.sleep(0)
    found = gc.collect()
    gc.disable()
    return found


@app.model
async def collect() -> list[str]:
    await asyncio.sleep(0)
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    kinds = (asyncio.Task, BaseException, FrameType, TracebackType)
    found = [
        type(left).__qualname__
        for left in gc.garbage
        if type(left).__module__.startswith("inferstream.") or isinstance(left, kinds)
    ]
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
    return found
"""


@pytest.fixture(scope="module", params=[0, 1], ids=["in-process", "worker"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("garbage") / "code"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    server = Running(folder, target=str(folder / "app.py"), INFERSTREAM_PARALLEL_WORKERS=str(request.param))
    yield server
    assert server.stop() == 0, server.text()


def over_sse(served: Running, model: str, name: str) -> None:
    url = f"{served.url}/v2/models/{model}/generate_stream"
    with httpx.Client(timeout=20) as client, connect_sse(client, "POST", url, json={"name": name}) as source:
        next(source.iter_sse())


def over_websocket(served: Running, model: str, name: str, cancel: bool = False) -> None:
    with connect(f"ws://127.0.0.1:{served.http_port}/v2/models/{model}/stream") as socket:
        socket.send(json.dumps({"id": "x", "inputs": [tensor("name", "BYTES", [name])]}))
        socket.recv(10)
        if cancel:
            socket.send(json.dumps({"id": "x", "cancel": True}))
            eventually(lambda: "error" in json.loads(socket.recv(10)))


def cancelled(served: Running, model: str, name: str) -> None:
    over_websocket(served, model, name, cancel=True)


def over_grpc(served: Running, model: str, name: str) -> None:
    request = ModelInferRequest(model_name=model)
    request.inputs.add(name="name", datatype="BYTES", shape=[1]).contents.bytes_contents.append(name.encode())
    with grpc.insecure_channel(served.grpc) as channel:
        responses = GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]), timeout=20)
        next(responses)
        responses.cancel()


def after_documents(served: Running, model: str, name: str) -> None:
    """Over a connection that FastAPI has answered before."""
    with httpx.Client(timeout=20) as client:
        assert client.get(f"{served.url}/docs").status_code == 200
        url = f"{served.url}/v2/models/{model}/generate_stream"
        with connect_sse(client, "POST", url, json={"name": name}) as source:
            next(source.iter_sse())


@pytest.mark.parametrize("model", ["blocking", "eager", "waiting"])
@pytest.mark.parametrize("leave", [over_sse, over_websocket, cancelled, over_grpc, after_documents])
def test_serving_creates_no_garbage_cycles(
    served: Running, leave: Callable[[Running, str, str], None], model: str
) -> None:
    def left(name: str) -> None:
        leave(served, model, name)
        eventually(lambda: served.noted(f"left {name}"))

    name = f"{leave.__name__}-{model}"
    left(f"{name}-first")  # what is made once is no garbage
    served.infer("begin", {}, "generate").raise_for_status()
    left(f"{name}-second")
    assert served.infer("collect", {}, "generate").json()["output"] == []
