"""Events with names and media types, over each transport, with and without workers."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from httpx_sse import connect_sse
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, write_model

APP = Path(__file__).parents[1] / "held_app.py"
NAMED = {"event": "progress", "done": 0, "of": 1}
FRAME = {"event": "frame", "media_type": "image/jpeg"}
UNTIL = {"name": "until", "datatype": "INT64", "shape": [1], "data": [1]}


@pytest.fixture(scope="module")
def server(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("events") / "app"
    folder.mkdir()
    shutil.copy(APP, folder / "app.py")
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


CLASS = """
from inferstream import InferenceResponse, MLModel, Parameters


class Named(MLModel):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            for name in ("progress", "error", "two words", 7):
                yield InferenceResponse(model_name=self.name, outputs=[], parameters=Parameters(event=name))
"""


def events(server: Running, path: str, body: object) -> list[tuple[str, dict]]:
    with (
        httpx.Client(timeout=20) as client,
        connect_sse(client, "POST", f"{server.url}/v2/models/{path}", json=body) as source,
    ):
        return [(event.event, event.json()) for event in source.iter_sse()]


def test_flat_events(server: Running) -> None:
    rest = {"model_name": "render", "model_version": ""}
    assert events(server, "render/generate_stream", {"until": 1}) == [
        ("progress", {**NAMED, **rest}),
        ("frame", {"output": "/9g=", **FRAME, **rest}),
        ("message", {"output": "cGxhaW4=", **rest}),
    ]


def test_v2_events(server: Running) -> None:
    found = events(server, "render/infer_stream", {"id": "1", "inputs": [UNTIL]})
    assert [name for name, _ in found] == ["progress", "frame", "message"]
    assert [response.get("parameters") for _, response in found] == [NAMED, FRAME, None]
    assert [len(response["outputs"]) for _, response in found] == [0, 1, 1]


def test_class_names_its_events(serve: Callable[..., Running], tmp_path: Path) -> None:
    """What no event may be called stays a parameter."""
    write_model(tmp_path / "models", "classes", "named.Named", CLASS, name="classes")
    server = serve(tmp_path / "models")
    found = events(server, "classes/infer_stream", {"inputs": []})
    assert [name for name, _ in found] == ["progress", "message", "message", "message"]
    assert [response["parameters"]["event"] for _, response in found] == ["progress", "error", "two words", 7]


def test_websocket_carries_event_names_as_parameters(server: Running) -> None:
    with connect(f"ws://127.0.0.1:{server.http_port}/v2/models/render/stream") as socket:
        socket.send(json.dumps({"id": "1", "inputs": [UNTIL]}))
        found = [json.loads(socket.recv(timeout=20))["parameters"] for _ in range(2)]
    assert found == [{**said, "triton_final_response": False} for said in (NAMED, FRAME)]


def test_grpc_carries_event_names_as_parameters(server: Running) -> None:
    request = ModelInferRequest(model_name="render")
    request.inputs.add(name="until", datatype="INT64", shape=[1]).contents.int64_contents.append(1)
    with grpc.insecure_channel(server.grpc) as channel:
        stream = GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]), timeout=20)
        first, second, last = stream
    assert first.parameters["event"].string_param == "progress"
    assert first.parameters["of"].int64_param == 1
    assert second.parameters["media_type"].string_param == "image/jpeg"
    assert second.outputs[0].contents.bytes_contents[0] == b"\xff\xd8"
    assert not last.parameters
