"""What MLServer gets wrong is right here, in models that import it.

Elsewhere: streams through workers in `test_stream_matrix.py` and `test_mlserver_models.py`; batches that mix
shapes, hang on a cancel or are lost by a reload in `test_batching.py`; one model's cached answers given for
another in `test_mlserver_examples.py`; MLServer's statuses with a text in `test_conformance.py`; one broken model and exit codes in
`faults/test_repository.py`; what codecs refuse or lose in `unit/codecs/test_mlserver_codecs.py`.
"""

import json
import re
from collections.abc import Iterator

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from httpx_sse import connect_sse

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, fp32, tensor, text, write_model

CODE = """
from typing import AsyncIterator

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec, decode_args
from mlserver.types import InferenceRequest, InferenceResponse


class Silent(MLModel):
    async def load(self):
        self._word = "loaded"  # and returns nothing

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        said = StringCodec.encode_output("said", [self._word])
        return InferenceResponse(model_name=self.name, outputs=[said])


class Halving(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        halves = NumpyCodec.decode_input(payload.inputs[0]) / np.float16(2)
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("halves", halves)])


class Modern(MLModel):
    @decode_args
    async def predict(self, words: list[str], times: np.ndarray | None = None) -> list[str]:
        return words * (1 if times is None else int(times.reshape(-1)[0]))


class Echoing(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        said = StringCodec.encode_output("said", ["hi"])
        return InferenceResponse(model_name=self.name, parameters=payload.parameters, outputs=[said])


class Breaking(MLModel):
    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[InferenceResponse]:
        yield InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("said", ["one"])])
        raise ValueError("the password is 1234")
"""


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("fixed") / "models"
    for name in ("Silent", "Halving", "Modern", "Echoing", "Breaking"):
        write_model(folder, name.lower(), f"fixed.{name}", CODE, name=name.lower())
    running = Running(folder, MLSERVER_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def stub(served: Running) -> Iterator[GRPCInferenceServiceStub]:
    with grpc.insecure_channel(served.grpc) as channel:
        yield GRPCInferenceServiceStub(channel)


def test_load_returning_none_makes_model_ready(served: Running) -> None:
    """There: not ready, 400."""
    assert served.infer("silent", text()).json()["outputs"][0]["data"] == ["loaded"]


def test_grpc_index_reports_ready(stub: GRPCInferenceServiceStub) -> None:
    """There: `State.READY`."""
    index = stub.RepositoryIndex(pb.RepositoryIndexRequest(), timeout=10)
    assert {model.state for model in index.models} == {"READY"}


def test_an_unknown_model_is_not_ready_and_not_found_over_grpc(stub: GRPCInferenceServiceStub) -> None:
    """There: UNKNOWN, on which clients that wait for a model give up."""
    assert not stub.ModelReady(pb.ModelReadyRequest(name="nobody"), timeout=10).ready
    with pytest.raises(grpc.RpcError) as failed:
        stub.ModelMetadata(pb.ModelMetadataRequest(name="nobody"), timeout=10)
    assert failed.value.code() is grpc.StatusCode.NOT_FOUND


def test_grpc_request_without_id_gets_one(stub: GRPCInferenceServiceStub) -> None:
    """There: it stays empty."""
    request = pb.ModelInferRequest(model_name="silent")
    given = request.inputs.add(name="x", datatype="BYTES", shape=[1])
    given.contents.bytes_contents.append(b"a")
    answer = stub.ModelInfer(request, timeout=10)
    assert re.fullmatch(r"[0-9a-f-]{36}", answer.id)


def test_fp16_is_supported_over_grpc(served: Running) -> None:
    """There: INTERNAL."""
    with triton_grpc.InferenceServerClient(served.grpc) as client:
        given = triton_grpc.InferInput("x", [2, 1], "FP16")
        given.set_data_from_numpy(np.array([[1.0], [3.0]], np.float16))
        answer = client.infer("halving", [given])
    assert answer.as_numpy("halves").tolist() == [[0.5], [1.5]]


def test_modern_type_hints_are_supported(served: Running) -> None:
    """There: `list[str]` and `T | None` fail when the class is made."""
    assert served.infer("modern", text("a") | {"inputs": [tensor("words", "BYTES", ["a"])]}).json()[
        "outputs"
    ][0]["data"] == ["a"]
    both = [tensor("words", "BYTES", ["a", "b"]), tensor("times", "INT32", [2])]
    answer = served.infer("modern", {"inputs": both}).json()
    assert answer["outputs"][0]["data"] == ["a", "b", "a", "b"]


def test_model_can_return_request_parameters(served: Running) -> None:
    """There: the request's `content-length` goes out again, and the connection breaks."""
    answer = served.infer("echoing", text(parameters={"kept": "yes"}), headers={"x-mine": "1"})
    assert answer.status_code == 200
    assert answer.json()["parameters"]["kept"] == "yes"
    assert answer.json()["outputs"][0]["data"] == ["hi"]


def test_broken_stream_reports_error(served: Running) -> None:
    """There: the body just stops; with workers there is no stream at all."""
    url = f"{served.url}/v2/models/breaking/infer_stream"
    with httpx.Client(timeout=10) as client, connect_sse(client, "POST", url, json=text()) as source:
        first, last = source.iter_sse()
    assert json.loads(first.data)["outputs"][0]["data"] == ["one"]
    assert last.event == "error"
    assert "1234" not in last.data


def test_a_failure_before_the_first_item_has_a_status(served: Running) -> None:
    """There: 500 even for a model that is not there."""
    assert served.infer("nobody", text(), "infer_stream").status_code == 404


def test_debug_is_off_and_tracebacks_stay_private(served: Running) -> None:
    """There: on in 1.7.1, with tracebacks in answers."""
    failed = served.infer("halving", fp32(["no number"]))
    assert failed.status_code == 400
    assert "Traceback" not in failed.text
    assert "DEBUG" not in served.text()
