"""A streamed response is freed before its model makes the next one: `AHEAD` of them exist where it has its own loop.

Kept ones leave the caches of the core.
"""

import importlib.util
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import httpx
import pytest
from httpx_sse import connect_sse
from websockets.sync.client import connect

from inferstream import AsyncClient
from inferstream.dataplane.execution.threads import AHEAD
from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelStreamInferResponse
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, tensor, write_model

RESPONSES = 40

COUNTS = f"""
import asyncio
import weakref

from inferstream import InferenceResponse, MLModel
from inferstream.codecs import StringCodec


class Counts(MLModel):
    async def predict_stream(self, payloads):
        made = []
        for _ in range({RESPONSES}):
            await asyncio.sleep(0)
            left = sum(each() is not None for each in made)
            output = StringCodec.encode_output("left", [str(left)])
            response = InferenceResponse(model_name=self.name, outputs=[output])
            made.append(weakref.ref(response))
            yield response
            del response
"""

APP = f"""
import asyncio
import weakref
from collections.abc import AsyncIterator

import numpy as np
from inferstream import App
from numpy.typing import NDArray

app = App()


@app.model
async def counts() -> AsyncIterator[NDArray[np.int64]]:
    made = []
    for _ in range({RESPONSES}):
        await asyncio.sleep(0)
        array = np.array([sum(each() is not None for each in made)])
        made.append(weakref.ref(array))
        yield array
        del array
"""

PROMPT = tensor("x", "BYTES", ["a"])


def over_sse(server: Running, **headers: str) -> list[str]:
    url = f"{server.url}/v2/models/counts/infer_stream"
    with (
        httpx.Client(timeout=20) as client,
        connect_sse(client, "POST", url, json={"inputs": [PROMPT]}, headers=headers) as source,
    ):
        return [
            event.json()["outputs"][0]["data"][0] for event in source.iter_sse() if "outputs" in event.data
        ]


def resumable(server: Running) -> list[str]:
    return over_sse(server, prefer="resumable")


def over_websocket(server: Running) -> list[str]:
    with connect(f"ws://127.0.0.1:{server.http_port}/v2/models/counts/stream") as socket:
        socket.send(json.dumps({"id": "x", "inputs": [PROMPT]}))
        return [json.loads(socket.recv(20))["outputs"][0]["data"][0] for _ in range(RESPONSES)]


def over_grpc(server: Running, dialect: str) -> list:
    request = ModelInferRequest(model_name="counts")
    request.inputs.add(name="x", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"a")
    with grpc.insecure_channel(server.grpc) as channel:
        metadata = (("x-stream-dialect", dialect),)
        stub = GRPCInferenceServiceStub(channel)
        return list(stub.ModelStreamInfer(iter([request]), timeout=20, metadata=metadata))


def as_mlserver(server: Running) -> list[str]:
    return [each.outputs[0].contents.bytes_contents[0].decode() for each in over_grpc(server, "mlserver")]


def as_triton(server: Running) -> list[str]:
    written = [each.SerializeToString() for each in over_grpc(server, "triton")]
    responses = [ModelStreamInferResponse.FromString(each).infer_response for each in written]
    return [each.raw_output_contents[0][4:].decode() for each in responses]


@pytest.mark.parametrize(("loop", "most"), [("server", 0), ("own", AHEAD + 1)])
@pytest.mark.parametrize("stream", [over_sse, resumable, over_websocket, as_mlserver, as_triton])
def test_responses_do_not_outlive_their_message(
    serve: Callable[..., Running],
    tmp_path: Path,
    stream: Callable[[Running], list[str]],
    loop: str,
    most: int,
) -> None:
    write_model(tmp_path / "models", "counts", "counts.Counts", COUNTS, name="counts", loop=loop)
    alive = [int(count) for count in stream(serve(tmp_path / "models"))]
    assert len(alive) == RESPONSES
    assert max(alive) <= most


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "counts_app.py"
    file.write_text(APP)
    return file


def over_rest(server: Running, file: Path) -> AsyncClient:
    return AsyncClient(server.url, timeout=20)


def typed(server: Running, file: Path) -> AsyncClient:
    spec = importlib.util.spec_from_file_location("counts_app", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return AsyncClient.over_typed_rpcs(f"grpc://{server.grpc}", module.app, timeout=20)


@pytest.mark.parametrize("client", [over_rest, typed])
async def test_arrays_do_not_outlive_their_message(
    serve: Callable[..., Running], app: Path, client: Callable[[Running, Path], AsyncClient]
) -> None:
    async with client(serve(app), app) as connected:
        items: AsyncIterator = connected.stream("counts")
        assert [array.tolist() async for array in items] == [[0]] * RESPONSES
