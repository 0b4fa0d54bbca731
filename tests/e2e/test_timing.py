"""The time of a request by stage, as clients of REST and gRPC receive it."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.engines import EVERY_ENGINE, options_of
from tests.serving import Running, eventually, text, write_model

CODE = """
import os
import time
from pathlib import Path
from inferstream import MLModel
from inferstream.types import InferenceResponse, ResponseOutput

class Gated(MLModel):
    def predict(self, payload):
        given = payload.inputs[0]
        while not Path(os.fsdecode(given.data[0])).exists():
            time.sleep(0.005)
        output = ResponseOutput(name="y", shape=given.shape, datatype="BYTES", data=given.data)
        return InferenceResponse(model_name=self.name, outputs=[output])
"""
GATED = "gated_models.Gated"
REQUESTED = {"X-Request-Timing": "1"}
METADATA = (("x-request-timing", "1"),)


@pytest.fixture(scope="module")
def timed(workers: int, grpc_engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("timed") / "models"
    write_model(folder, "queued", GATED, CODE, max_concurrency=1)
    write_model(folder, "batched", GATED, CODE, max_concurrency=1, max_batch_size=4, max_batch_time=0.01)
    write_model(folder, "streaming", "faulty_models.Streaming")
    running = Running(folder, INFERSTREAM_PARALLEL_WORKERS=str(workers), **options_of(grpc_engine))
    yield running
    assert running.stop() == 0, running.text()


def stages(value: str) -> dict[str, float]:
    """The milliseconds by stage of a header, by the grammar of the W3C's Server Timing."""
    found = [re.fullmatch(r"([a-z]+);dur=(\d+\.\d+)", each) for each in value.split(", ")]
    return {each[1]: float(each[2]) for each in found if each is not None}


def gate(path: Path) -> dict:
    tensor = {"name": "x", "datatype": "BYTES", "shape": [1], "data": [str(path)]}
    return {"inputs": [tensor]}


@pytest.mark.parametrize(("model", "stage"), [("queued", "queue"), ("batched", "batch")])
def test_call_that_waits_has_that_stage(timed: Running, tmp_path: Path, model: str, stage: str) -> None:
    path = tmp_path / "gate"
    with ThreadPoolExecutor(2) as threads:
        both = [
            threads.submit(timed.infer, model, gate(path), headers=REQUESTED),
            threads.submit(timed.infer, model, gate(path), headers=REQUESTED),
        ]
        eventually(lambda: timed.metric("inferstream_calls_in_progress", model=model) == 2)
        path.touch()
        found = [stages(each.result().headers["server-timing"]) for each in both]
    first, second = sorted(found, key=lambda each: stage in each)
    assert first.keys() == {"model", "write", "total"}
    # With an open gate, the model may take less than the clock shows.
    assert second.keys() | {"model"} == {stage, "model", "write", "total"}
    for each in found:
        assert sum(each.values()) - each["total"] <= each["total"]


def test_response_has_times_only_on_request(timed: Running, tmp_path: Path) -> None:
    (path := tmp_path / "gate").touch()
    assert "server-timing" not in timed.infer("queued", gate(path)).headers


def test_error_has_total(timed: Running) -> None:
    response = timed.infer("queued", {"inputs": 1}, headers=REQUESTED)
    assert (response.status_code, stages(response.headers["server-timing"]).keys()) == (400, {"total"})


def test_stream_has_time_until_first_response(timed: Running) -> None:
    with httpx.Client(base_url=timed.url) as client:
        response = client.post("/v2/models/streaming/infer_stream", json=text(), headers=REQUESTED)
    assert stages(response.headers["server-timing"]).keys() == {"model", "total"}


@EVERY_ENGINE
def test_rpc_has_times_in_trailers(timed: Running, tmp_path: Path) -> None:
    (path := tmp_path / "gate").touch()
    unary, streamed = request_of("queued", path), request_of("streaming", path)
    with grpc.insecure_channel(timed.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        _, call = stub.ModelInfer.with_call(unary, metadata=METADATA, timeout=20)
        assert trailing(call).keys() == {"model", "write", "total"}
        _, call = stub.ModelInfer.with_call(unary, timeout=20)
        assert trailing(call) == {}
        stream = stub.ModelStreamInfer(iter([streamed, streamed]), metadata=METADATA, timeout=20)
        assert len([*stream]) > 2
        assert trailing(stream).keys() == {"model", "total"}


def request_of(model: str, path: Path) -> ModelInferRequest:
    request = ModelInferRequest(model_name=model)
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(str(path).encode())
    return request


def trailing(call: grpc.Call) -> dict[str, float]:
    return stages(dict(call.trailing_metadata()).get("server-timing", ""))
