"""A folder as KServe's storage initializer leaves it, and the requests that KServe's own tests send to a server of it.

The requests are those of test/e2e/data in github.com/kserve/kserve (iris_*.json, 2026-08), the answers those that
test/e2e/predictor expects.
"""

from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import joblib
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.repository.artefacts import NO_MODEL
from tests.serving import Running, eventually, write_model

ROWS = [[6.8, 2.8, 4.8, 1.4], [6.0, 3.4, 4.5, 1.6]]
TENSOR = {"name": "input-0", "shape": [2, 4], "datatype": "FP32", "data": ROWS}
BATCH = [[[6.8, 2.8, 4.8, 1.4], [6.0, 1.0, 4.5, 1.6]], ROWS]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    models = tmp_path_factory.mktemp("mnt") / "models"
    models.mkdir()
    joblib.dump(LogisticRegression(max_iter=500).fit(*load_iris(return_X_y=True)), models / "model.joblib")
    running = Running(models, "--model_name=sklearn-iris")
    yield running
    assert running.stop() == 0, running.text()


def test_bare_artefact_is_ready_under_inference_service_name(served: Running) -> None:
    assert httpx.get(f"{served.url}/v2/health/ready").status_code == 200
    assert httpx.get(f"{served.url}/v2/models/sklearn-iris/ready").status_code == 200
    assert httpx.get(f"{served.url}/v1/models/sklearn-iris").json()["ready"] is True
    assert httpx.get(f"{served.url}/v1/models").json()["models"] == ["sklearn-iris"]


@pytest.mark.parametrize(
    "rows", [ROWS, *BATCH], ids=["iris_input", "iris_batch_input-0", "iris_batch_input-1"]
)
def test_v1(served: Running, rows: list[list[float]]) -> None:
    response = httpx.post(f"{served.url}/v1/models/sklearn-iris:predict", json={"instances": rows})
    assert response.status_code == 200, response.text
    assert response.json()["predictions"] == [1, 1]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"outputs": [{"name": "output-0", "parameters": {"binary_data": True}}]},
        {"parameters": {"binary_data_output": True}},
    ],
    ids=["iris_input_v2", "iris_input_v2_binary", "iris_input_v2_all_binary"],
)
def test_v2(served: Running, more: dict[str, object]) -> None:
    response = served.infer("sklearn-iris", {"inputs": [TENSOR], **more})
    assert response.status_code == 200, response.text
    [output] = _json_of(response)["outputs"]
    size = output.get("parameters", {}).get("binary_data_size")
    data = output["data"] if size is None else np.frombuffer(response.content[-size:], np.int64).tolist()
    assert (data, size is not None) == ([1, 1], bool(more))
    assert output["name"] == ("output-0" if "outputs" in more else "predict")


def _json_of(response: httpx.Response) -> dict[str, list[dict]]:
    length = int(response.headers.get("inference-header-content-length", len(response.content)))
    return httpx.Response(200, content=response.content[:length]).json()


def test_v2_grpc(served: Running) -> None:
    contents = pb.InferTensorContents(fp32_contents=[value for row in ROWS for value in row])
    tensor = pb.ModelInferRequest.InferInputTensor(
        name="input-0", shape=[2, 4], datatype="FP32", contents=contents
    )
    with grpc.insecure_channel(served.grpc) as channel:
        response = GRPCInferenceServiceStub(channel).ModelInfer(
            pb.ModelInferRequest(model_name="sklearn-iris", inputs=[tensor]), timeout=20
        )
    assert [*response.outputs[0].contents.int64_contents] == [1, 1]


def test_folder_with_files_but_no_model_is_not_ready(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "weights.bin").write_text("")
    running = Running(folder, "--model_name=iris")
    try:
        assert httpx.get(f"{running.url}/v2/health/live").status_code == 200
        assert httpx.get(f"{running.url}/v2/health/ready").status_code == 503
        assert httpx.get(f"{running.url}/v2/models/iris/ready").status_code == 503
        assert httpx.post(f"{running.url}/v2/repository/index").json()[0]["reason"] == NO_MODEL
        eventually(lambda: NO_MODEL in running.text())
        assert "server init" in running.text(), "the next step"
    finally:
        assert running.stop() == 0, running.text()
    with_strict = Running(folder, "--strict", wait=False)
    assert with_strict.process.wait(30) == 1
    assert NO_MODEL in with_strict.text()


EXPLAINING = """
from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceResponse

class Explaining(MLModel):
    def predict(self, payload):
        return self.answer(payload, 1)

    def explain(self, payload):
        return self.answer(payload, 10)

    def answer(self, payload, factor):
        array = NumpyCodec.decode_input(payload.inputs[0]) * factor
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", array)])
"""


@pytest.mark.parametrize("parallel", ["0", "1"])
def test_explanations_and_events(tmp_path: Path, parallel: str) -> None:
    write_model(tmp_path, "models/m", "explaining.Explaining", EXPLAINING)
    running = Running(tmp_path / "models", within=60, INFERSTREAM_PARALLEL_WORKERS=parallel)
    try:
        url, body = f"{running.url}/v1/models/m", {"instances": [[1.0, 2.0]]}
        assert httpx.post(f"{url}:explain", json=body).json() == {"explanations": [[10.0, 20.0]]}
        assert httpx.post(f"{url}:predict", json=body).json() == {"predictions": [[1.0, 2.0]]}
        event = {"specversion": "1.0", "id": "1", "source": "tests", "type": "asked", "data": body}
        headers = {"content-type": "application/cloudevents+json"}
        answer = httpx.post(f"{url}:explain", json=event, headers=headers)
        assert answer.headers["content-type"] == "application/cloudevents+json"
        assert answer.json()["data"] == {"explanations": [[10.0, 20.0]]}
    finally:
        assert running.stop() == 0, running.text()
