"""What a model says of itself while its worker is busy, and who is asked for it."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelMetadataRequest, ModelMetadataResponse
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.frontends import clients
from tests.serving import Running, eventually, text, write_model

CODE = """
import os
import time
from pathlib import Path

from inferstream import MLModel
from inferstream.types import InferenceResponse, MetadataModelResponse, MetadataTensor


class Found(MLModel):
    async def load(self):
        found = int(Path(__file__).with_name("artefact").read_text())
        self.inputs = [MetadataTensor(name="x", datatype="FP32", shape=[-1, found])]
        self.outputs = [MetadataTensor(name="y", datatype="INT64", shape=[found])]
        return True

    async def predict(self, payload):
        log = Path(os.environ["TEST_LOG"])
        with log.open("a") as file:
            file.write("blocks\\n")
        while not log.with_suffix(".gate").exists():
            time.sleep(0.01)
        return InferenceResponse(model_name=self.name, outputs=[])


class Speaking(MLModel):
    asked = 0

    async def metadata(self):
        self.asked += 1
        return MetadataModelResponse(name=self.name, platform=f"asked {self.asked} times")

    async def predict(self, payload):
        raise NotImplementedError
"""


def write_models(folder: Path, **settings) -> Path:
    found = write_model(
        folder,
        "found",
        "found.Found",
        CODE,
        platform="found",
        versions=["a", "b"],
        input_validation="off",
        parameters={"version": "3", "content_type": "np"},
        **settings,
    )
    (found / "artefact").write_text("4")
    write_model(folder, "speaking", "found.Speaking", CODE)
    return folder


def expected(size: int) -> dict:
    return {
        "name": "found",
        "platform": "found",
        "versions": ["a", "b"],
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, size]}],
        "outputs": [{"name": "y", "datatype": "INT64", "shape": [size]}],
        "parameters": {"content_type": "np"},
    }


def over_grpc(server: Running, name: str) -> ModelMetadataResponse:
    with grpc.insecure_channel(server.grpc) as channel:
        return GRPCInferenceServiceStub(channel).ModelMetadata(ModelMetadataRequest(name=name), timeout=20)


@contextmanager
def busy(server: Running) -> Iterator[None]:
    """While this lasts, the one worker's event loop does not turn."""
    gate = server.log.with_suffix(".gate")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.infer, "found", text())
        try:
            eventually(lambda: server.noted("blocks"), 10)
            yield
            assert not answer.done()
        finally:
            gate.touch()
        assert answer.result().status_code == 200


def test_blocked_worker_metadata_comes_from_load(start: Callable[..., Running], tmp_path: Path) -> None:
    server = start(write_models(tmp_path / "models"), INFERSTREAM_PARALLEL_WORKERS="1")
    with busy(server):
        for path in ("found", "found/versions/3"):
            assert httpx.get(f"{server.url}/v2/models/{path}", timeout=20).json() == expected(4)
        said = over_grpc(server, "found")
        assert (said.platform, list(said.versions)) == ("found", ["a", "b"])
        assert [list(tensor.shape) for tensor in said.inputs] == [[-1, 4]]
        assert [tensor.name for tensor in said.outputs] == ["y"]


def test_every_front_end_has_metadata_of_blocked_worker(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    folder = write_models(tmp_path / "models")
    (folder / "settings.json").write_text(json.dumps({"frontends": 2, "parallel_workers": 1}))
    server = start(folder)
    with busy(server), clients(server) as opened:
        for client in opened:
            assert client.get("/v2/models/found").json() == expected(4)


def test_reload_refreshes_metadata(serve: Callable[..., Running], tmp_path: Path) -> None:
    folder = write_models(tmp_path / "models")
    server = serve(folder)
    assert httpx.get(f"{server.url}/v2/models/found").json() == expected(4)
    (folder / "found" / "artefact").write_text("5")
    assert httpx.post(f"{server.url}/v2/repository/models/found/load", timeout=20).status_code == 200
    assert httpx.get(f"{server.url}/v2/models/found").json() == expected(5)


@pytest.mark.parametrize("workers", [0, 1])
def test_custom_metadata_is_read_on_each_request(
    start: Callable[..., Running], tmp_path: Path, workers: int
) -> None:
    server = start(write_models(tmp_path / "models"), INFERSTREAM_PARALLEL_WORKERS=str(workers))
    said = [httpx.get(f"{server.url}/v2/models/speaking", timeout=20).json()["platform"] for _ in range(2)]
    said.append(over_grpc(server, "speaking").platform)
    assert said == ["asked 1 times", "asked 2 times", "asked 3 times"]
