"""Large typed contents from clients of grpcio, in one call and in a stream, to the server's process and to a worker."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running

APP = """
import numpy as np
import numpy.typing as npt
from inferstream import App

app = App()

@app.model
def integers(x: npt.NDArray[np.int64], k: int) -> float:
    x += k
    return float(x.sum())

@app.model
def small(x: npt.NDArray[np.int8], k: int) -> float:
    return float(x.sum())

@app.model
def flags(x: npt.NDArray[np.bool_], k: int) -> float:
    return float(x.sum())

@app.model
def fractions(x: npt.NDArray[np.float32], k: int) -> float:
    return float(x.sum())
"""
COUNT = 100_000
CALLS: dict[str, tuple[str, str, list[Any], float]] = {
    "integers": ("INT64", "int64_contents", [-1, 300] * (COUNT // 2), 299 * COUNT // 2 + 2 * COUNT),
    "small": ("INT8", "int_contents", [-128, 127] * (COUNT // 2), -COUNT // 2),
    "flags": ("BOOL", "bool_contents", [True, False] * (COUNT // 2), COUNT // 2),
    "fractions": ("FP32", "fp32_contents", [0.5] * COUNT, COUNT // 2),
}


@pytest.fixture(scope="module", params=[0, 1], ids=["in-process", "worker"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("contents") / "app"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    running = Running(folder, target=str(folder / "app.py"), INFERSTREAM_PARALLEL_WORKERS=str(request.param))
    yield running
    assert running.stop() == 0, running.text()


def message(model: str, values: list[Any] | None = None) -> ModelInferRequest:
    datatype, field, usual, _ = CALLS[model]
    values = usual if values is None else values
    asked = ModelInferRequest(model_name=model)
    tensor = asked.inputs.add(name="x", datatype=datatype, shape=[len(values)])
    getattr(tensor.contents, field).extend(values)
    asked.inputs.add(name="k", datatype="INT64", shape=[1]).contents.int64_contents.append(2)
    return asked


@pytest.mark.parametrize("model", CALLS)
def test_large_contents_are_unchanged(served: Running, model: str) -> None:
    with grpc.insecure_channel(served.grpc) as channel:
        response = GRPCInferenceServiceStub(channel).ModelInfer(message(model), timeout=20)
    assert list(response.outputs[0].contents.fp64_contents) == [CALLS[model][3]]


def test_out_of_range_number_names_its_input(served: Running) -> None:
    with grpc.insecure_channel(served.grpc) as channel, pytest.raises(grpc.RpcError) as failed:
        GRPCInferenceServiceStub(channel).ModelInfer(message("small", [128] * COUNT), timeout=20)
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert '"x"' in failed.value.details()


def test_shape_matches_contents(served: Running) -> None:
    asked = message("fractions")
    asked.inputs[0].shape[0] = COUNT - 1
    with grpc.insecure_channel(served.grpc) as channel, pytest.raises(grpc.RpcError) as failed:
        GRPCInferenceServiceStub(channel).ModelInfer(asked, timeout=20)
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert '"x"' in failed.value.details()
