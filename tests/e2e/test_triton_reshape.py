"""`reshape` in config.pbtxt, and the flag of the last response, over every transport."""

import json
from collections.abc import Iterator

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.grpc_web import BINARY, framed, headers_of
from tests.serving import Running

CODE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            assert x.shape == (1, 2, 2), x.shape
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x.reshape(1, 4, 1) + 1)]))
        if not self.decoupled:
            return responses
        for request, response in zip(requests, responses):
            sender = request.get_response_sender()
            sender.send(response)
            sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def initialize(self, arguments):
        self.decoupled = "decoupled" in arguments["model_name"]
"""
CONFIG = """backend: "python"
max_batch_size: 0
input [ { name: "X" data_type: TYPE_FP32 dims: [ 4 ] reshape { shape: [ 1, 2, 2 ] } } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape { shape: [ 1, 4, 1 ] } } ]
"""
ARRAY = np.array([0, 1, 2, 3], np.float32)
BODY = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [4], "data": ARRAY.tolist()}]}


@pytest.fixture(scope="module", params=[0, 1], ids=["process", "worker"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("reshape") / "models"
    for name, more in (("plain", ""), ("decoupled", "model_transaction_policy { decoupled: true }\n")):
        (root / name / "1").mkdir(parents=True)
        (root / name / "1" / "model.py").write_text(CODE)
        (root / name / "config.pbtxt").write_text(CONFIG + more)
    running = Running(root, "--one-port", "--workers", str(request.param), within=100)
    yield running
    assert running.stop() == 0, running.text()


def message(model: str) -> ModelInferRequest:
    made = ModelInferRequest(model_name=model)
    made.inputs.add(name="X", datatype="FP32", shape=[4]).contents.fp32_contents.extend(ARRAY)
    return made


def over_client(server: Running, library, **options: bool) -> list[int]:
    with library.InferenceServerClient(f"127.0.0.1:{server.http_port}") as client:
        given = library.InferInput("X", [4], "FP32")
        given.set_data_from_numpy(ARRAY, **options)
        asked = [library.InferRequestedOutput("Y", **options)]
        return [*client.infer("plain", [given], outputs=asked).as_numpy("Y").shape]


def over_grpc(server: Running) -> list[int]:
    with grpc.insecure_channel(f"127.0.0.1:{server.http_port}") as channel:
        return [*GRPCInferenceServiceStub(channel).ModelInfer(message("plain"), timeout=20).outputs[0].shape]


def over_websocket(server: Running) -> list[int]:
    with connect(f"{server.url.replace('http', 'ws', 1)}/v2/models/plain/stream") as socket:
        socket.send(json.dumps(BODY))
        return json.loads(socket.recv(20))["outputs"][0]["shape"]


WAYS = {
    "json": lambda server: server.infer("plain", BODY).json()["outputs"][0]["shape"],
    "flat json": lambda server: [
        *np.shape(server.infer("plain", {"X": [0, 1, 2, 3]}, "generate").json()["Y"])
    ],
    "binary": lambda server: over_client(server, triton_http, binary_data=True),
    "client json": lambda server: over_client(server, triton_http, binary_data=False),
    "grpc raw": lambda server: over_client(server, triton_grpc),
    "grpc typed": over_grpc,
    "websocket": over_websocket,
    "v1": lambda server: [
        *np.shape(
            httpx.post(f"{server.url}/v1/models/plain:predict", json={"instances": [[0, 1, 2, 3]]}).json()[
                "predictions"
            ][0]
        )
    ],
}


@pytest.mark.parametrize("way", WAYS)
def test_clients_see_shape_of_dims(server: Running, way: str) -> None:
    assert WAYS[way](server) == [2, 2]


def test_over_grpc_web(server: Running) -> None:
    answered = httpx.post(
        f"{server.url}/inference.GRPCInferenceService/ModelInfer",
        content=framed(message("plain").SerializeToString()),
        headers=headers_of(BINARY),
    )
    assert b"\x1a\x02\x02\x02" in answered.content  # field 3, packed: 2, 2
    assert b"grpc-status:0" in answered.content


def test_final_response_flag_over_grpc_web_and_events(server: Running) -> None:
    web = httpx.post(
        f"{server.url}/inference.GRPCInferenceService/ModelStreamInfer",
        content=framed(message("decoupled").SerializeToString()),
        headers=headers_of(BINARY),
    )
    assert web.content.count(b"\x1a\x02\x02\x02") == 2
    assert web.content.count(b"triton_final_response") == 1
    events = server.infer("decoupled", {"X": [0, 1, 2, 3]}, "generate_stream").text.split("\n\n")
    assert ["triton_final_response" in event for event in events if event] == [False, True]


def test_final_response_flag_over_websocket(server: Running) -> None:
    with connect(f"{server.url.replace('http', 'ws', 1)}/v2/models/decoupled/stream") as socket:
        socket.send(json.dumps(BODY))
        answers = [json.loads(socket.recv(20)) for _ in range(3)]
    assert [each["parameters"]["triton_final_response"] for each in answers] == [False, False, True]
    assert [len(each["outputs"]) for each in answers] == [1, 1, 0]
