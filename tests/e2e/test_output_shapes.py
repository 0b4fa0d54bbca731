"""Outputs as models written for MLServer return them: a size of -1, and two of one name."""

from collections.abc import Callable, Iterator

import grpc
import httpx
import pytest

from inferstream.protos import dataplane_pb2 as messages
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, started_once, tensor, write_model

CODE = """
from {package} import MLModel
from {package}.types import InferenceResponse, ResponseOutput

class Model(MLModel):
    def answer(self, request):
        rows = request.inputs[0].data[0]
        numbers = ResponseOutput(name="numbers", shape=[-1, 1], datatype="FP32", data=[0.5] * rows)
        texts = [ResponseOutput(name="text", shape=[-1], datatype="BYTES", data=[text]) for text in "ab"]
        return InferenceResponse(model_name=self.name, outputs=[numbers, *texts])

    async def predict(self, payload):
        return self.answer(payload)

    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield self.answer(payload)
            yield self.answer(payload)
"""
PACKAGES = ("mlserver", "inferstream")
EXPECTED = [("numbers", [3, 1]), ("text", [1]), ("text", [1])]


@pytest.fixture(scope="module")
def server_with(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Running]]:
    def start(workers: int) -> Running:
        root = tmp_path_factory.mktemp("shapes") / "models"
        for package in PACKAGES:
            write_model(root, package, "model.Model", CODE.format(package=package), name=package)
        return Running(root, within=60, INFERSTREAM_PARALLEL_WORKERS=str(workers))

    with started_once(start) as servers:
        yield servers


def shapes_over_rest(server: Running, model: str) -> list[list[tuple[str, list[int]]]]:
    request = {"inputs": [tensor("x", "INT64", [3], [1])]}
    single = server.infer(model, request).raise_for_status().json()
    url = f"{server.url}/v2/models/{model}/infer_stream"
    with httpx.Client() as client:
        events = client.post(url, json=request, timeout=20).text.split("\n\n")
    items = [httpx.Response(200, text=each.removeprefix("data: ")).json() for each in events if each]
    return [[(each["name"], each["shape"]) for each in item["outputs"]] for item in [single, *items]]


def shapes_over_grpc(server: Running, model: str) -> list[list[tuple[str, list[int]]]]:
    request = messages.ModelInferRequest(model_name=model)
    request.inputs.add(name="x", datatype="INT64", shape=[1]).contents.int64_contents.append(3)
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        single = stub.ModelInfer(request, timeout=20)
        items = [*stub.ModelStreamInfer(iter([request]), timeout=20)]
    responses = [single, *(getattr(item, "infer_response", item) for item in items)]
    return [[(each.name, [*each.shape]) for each in item.outputs] for item in responses]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("model", PACKAGES)
def test_shapes_are_completed_and_names_may_repeat(
    server_with: Callable[[int], Running], workers: int, model: str
) -> None:
    server = server_with(workers)
    assert shapes_over_rest(server, model) == [EXPECTED] * 3
    assert shapes_over_grpc(server, model) == [EXPECTED] * 3
    assert server.text().count(f'model {model} returns more than one output named "text"') == 1
