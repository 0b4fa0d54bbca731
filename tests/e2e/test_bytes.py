"""V2 JSON holds the bytes that a function returns as base64, and says so, wherever the response has been."""

import base64
import json
from collections.abc import Iterator

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.http as triton_http
from httpx_sse import connect_sse
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, tensor

APP = """
from collections.abc import AsyncIterator
from enum import Enum
from inferstream import App

app = App()

class Mark(Enum):
    A = b"text"

@app.model
def one(a: bytes) -> bytes:
    return a

@app.model(cache_enabled=True)
def cached(a: bytes) -> bytes:
    return a

@app.model
def several(a: bytes) -> list[bytes]:
    return [a]

@app.model
def pair(a: bytes) -> tuple[bytes, str]:
    return a, "text"

@app.model
def chosen(a: bytes) -> Mark:
    return Mark(a)

@app.model(batch=4, within_ms=1)
def batched(a: list[bytes]) -> list[bytes]:
    return a

@app.model
async def streamed(a: bytes) -> AsyncIterator[bytes]:
    yield a
    yield a

@app.model(cache_enabled=True)
async def cached_stream(a: bytes) -> AsyncIterator[bytes]:
    yield a
    yield a
"""
SINGLE = ["one", "cached", "several", "pair", "chosen", "batched"]
STREAMS = ["streamed", "cached_stream"]
CODED = base64.b64encode(b"text").decode()
REQUEST = {"inputs": [{**tensor("a", "BYTES", [CODED]), "parameters": {"content_type": "base64"}}]}


@pytest.fixture(scope="module", params=[0, 2])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("bytes") / "code"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    server = Running(
        folder,
        target=str(folder / "app.py"),
        INFERSTREAM_PARALLEL_WORKERS=str(request.param),
        INFERSTREAM_CACHE_ENABLED="true",
    )
    yield server
    assert server.stop() == 0, server.text()


def named(output: dict) -> bool:
    """Whether an output holds base64 and says so."""
    return (output["data"], output.get("parameters")) == ([CODED], {"content_type": "base64"})


@pytest.mark.parametrize("wanted", [None, "output"])
@pytest.mark.parametrize("model", SINGLE)
def test_single_responses(served: Running, model: str, wanted: str | None) -> None:
    wanted = "output_0" if wanted and model == "pair" else wanted
    request = {**REQUEST, **({"outputs": [{"name": wanted}]} if wanted else {})}
    for _ in range(2):  # the second response may be that of the cache
        answered = served.infer(model, request)
        assert named(answered.json()["outputs"][0]), answered.text
        assert [output["data"] for output in answered.json()["outputs"][1:]] in ([], [["text"]])


@pytest.mark.parametrize("model", [*SINGLE, *STREAMS])
def test_streams_and_sockets(served: Running, model: str) -> None:
    events = 2 if model in STREAMS else 1
    url = f"{served.url}/v2/models/{model}/infer_stream"
    for _ in range(2):
        with httpx.Client(timeout=20) as client, connect_sse(client, "POST", url, json=REQUEST) as source:
            found = [json.loads(event.data) for event in source.iter_sse()]
        assert [named(event["outputs"][0]) for event in found] == [True] * events, found
        with connect(f"ws://127.0.0.1:{served.http_port}/v2/models/{model}/stream") as socket:
            socket.send(json.dumps({"id": "x", **REQUEST}))
            messages = [json.loads(socket.recv(10)) for _ in range(events)]
        assert [named(message["outputs"][0]) for message in messages] == [True] * events, messages


@pytest.mark.parametrize("model", [*SINGLE, *STREAMS])
def test_raw_bytes_on_binary_transports(served: Running, model: str) -> None:
    request = ModelInferRequest(model_name=model)
    request.inputs.add(name="a", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"text")
    with grpc.insecure_channel(served.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        for response in stub.ModelStreamInfer(iter([request]), timeout=20):
            output = response.outputs[0]
            raw = response.raw_output_contents
            assert (raw[0][4:] if raw else output.contents.bytes_contents[0]) == b"text"
            assert not output.parameters
    if model in SINGLE:
        client = triton_http.InferenceServerClient(f"127.0.0.1:{served.http_port}")
        given = triton_http.InferInput("a", [1], "BYTES")
        given.set_data_from_numpy(np.array([b"text"], object))
        name = "output_0" if model == "pair" else "output"
        wanted = [triton_http.InferRequestedOutput(name, binary_data=True)]
        found = client.infer(model, [given], outputs=wanted)
        assert found.as_numpy(name).tolist() == [b"text"]
        assert set(found.get_output(name)["parameters"]) == {"binary_data_size"}
        client.close()
