"""Headers of requests in, headers of answers out, and the CloudEvents among them."""

import json
from collections.abc import Iterator

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, fp32, text, write_model

CODE = """
import json
from mlserver import MLModel
from mlserver.types import InferenceResponse, Parameters, ResponseOutput

class Model(MLModel):
    def words(self, value, headers=None):
        output = ResponseOutput(name="words", shape=[1], datatype="BYTES", data=[value])
        response = InferenceResponse(model_name=self.name, outputs=[output])
        if headers is not None:
            response.parameters = Parameters(headers=headers)
        return response

    async def predict(self, payload):
        given = payload.parameters.headers
        if payload.inputs[0].name == "echo":
            response = self.words("echoed")
            response.parameters = payload.parameters
            return response
        if payload.inputs[0].name == "pass":
            return self.words("passed on", given)
        if payload.inputs[0].name == "copy":
            return self.words("copied", dict(given))
        return self.words(json.dumps(dict(given)), {"x-model": "mine", "Ce-Source": "elsewhere"})

    async def predict_stream(self, payloads):
        number = 0
        async for payload in payloads:
            given = dict(payload.parameters.headers)
            yield self.words(json.dumps(given), {"x-model": f"item {number}"})
            yield self.words("more", {"x-model": f"item {number} more"})
            number += 1
"""

SHARED = {
    "specversion": "0.3",
    "source": "io.seldon.serving.deployment.shop",
    "modelid": "headed",
    "inferenceservicename": "shop",
    "endpoint": "headed",
    "id": "id-1",
    "requestid": "id-1",
}
TYPE = "io.seldon.serving.inference."


@pytest.fixture(scope="module")
def shop(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("headers") / "models"
    write_model(folder, "headed", "model.Model", CODE)
    settings = {"server_name": "shop", "cloudevents_headers": True, "parallel_workers": workers}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def request(name: str = "text") -> dict:
    return {"id": "id-1", "inputs": [{"name": name, "datatype": "BYTES", "shape": [1], "data": ["hi"]}]}


def message(name: str = "text") -> ModelInferRequest:
    made = ModelInferRequest(model_name="headed", id="id-1")
    made.inputs.add(name=name, datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"hi")
    return made


def events(headers: dict) -> dict:
    """The CloudEvents among these, by what follows their prefix."""
    return {name[3:].lower(): value for name, value in headers.items() if name.startswith(("ce-", "Ce-"))}


def seen(response: dict) -> dict:
    return json.loads(response["outputs"][0]["data"][0])


def test_rest_returns_headers_outside_the_body(shop: Running) -> None:
    answer = shop.infer("headed", request(), headers={"X-Mine": "yes"})
    given = seen(answer.json())
    assert given["x-mine"] == "yes"
    assert events(given) == {**SHARED, "type": TYPE + "request"}
    assert "Ce-Modelid" in given
    assert events(answer.headers) == {**SHARED, "type": TYPE + "response", "source": "elsewhere"}
    assert answer.headers["x-model"] == "mine"
    assert "headers" not in answer.json().get("parameters", {})


@pytest.mark.parametrize("kind", ["echo", "pass", "copy"])
def test_echoed_headers_keep_connection_intact(shop: Running, kind: str) -> None:
    with httpx.Client(base_url=shop.url) as client:
        for _ in range(2):
            answer = client.post("/v2/models/headed/infer", json=request(kind), headers={"X-Mine": "yes"})
            assert answer.status_code == 200, answer.text
            assert int(answer.headers["content-length"]) == len(answer.content)
            assert "user-agent" not in answer.headers or kind == "copy"
            assert answer.headers.get("x-mine") == ("yes" if kind == "copy" else None)


def test_stream_returns_headers_of_first_response(shop: Running) -> None:
    answer = shop.infer("headed", request(), "infer_stream")
    assert events(answer.headers) == {**SHARED, "type": TYPE + "response"}
    assert answer.headers["x-model"] == "item 0"
    first = json.loads(answer.text.partition("\n")[0].removeprefix("data: "))
    assert events(seen(first))["type"] == TYPE + "request"
    assert "headers" not in answer.text.partition("\n")[2]


def test_refusal_has_no_model_headers(shop: Running) -> None:
    assert not events(shop.infer("nobody", text()).headers)


def test_grpc_returns_trailing_metadata(shop: Running) -> None:
    with grpc.insecure_channel(shop.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        answer, call = stub.ModelInfer.with_call(message(), metadata=[("x-mine", "yes")], timeout=10)
        given = json.loads(answer.outputs[0].contents.bytes_contents[0])
        assert given["x-mine"] == "yes"
        assert events(given) == {**SHARED, "type": TYPE + "request"}
        trailing = dict(call.trailing_metadata())
        assert events(trailing) == {**SHARED, "type": TYPE + "response", "source": "elsewhere"}
        assert trailing["x-model"] == "mine"

        for kind in ("echo", "copy"):
            answer, call = stub.ModelInfer.with_call(message(kind), metadata=[("x-mine", "yes")], timeout=10)
            assert answer.id == "id-1"


def test_grpc_stream_returns_metadata_of_last_response(shop: Running) -> None:
    with grpc.insecure_channel(shop.grpc) as channel:
        call = GRPCInferenceServiceStub(channel).ModelStreamInfer(
            iter([message(), message()]), metadata=[("x-stream-dialect", "mlserver")], timeout=10
        )
        answers = [answer.outputs[0].contents.bytes_contents[0] for answer in call]
        for given in answers[::2]:
            assert events(json.loads(given)) == {**SHARED, "type": TYPE + "request"}
        trailing = dict(call.trailing_metadata())
        assert trailing["x-model"] == "item 1 more"
        assert events(trailing) == {**SHARED, "type": TYPE + "response"}


def test_no_cloudevents_outside_kubernetes(server: Running) -> None:
    answer = server.infer("echo", fp32([1.0]))
    assert answer.status_code == 200
    assert not events(answer.headers)
