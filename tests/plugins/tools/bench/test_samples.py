"""The request of a load."""

import json
from pathlib import Path

import numpy as np
import pytest

from inferstream.errors import InvalidSettings
from inferstream.plugins.tools.bench.samples import WORD, generate_request, read_request_file
from inferstream.types import MetadataModelResponse, MetadataTensor


def metadata(*tensors: MetadataTensor) -> MetadataModelResponse:
    return MetadataModelResponse(name="m", platform="", inputs=[*tensors], outputs=[])


def test_declared_shape_and_datatype_are_generated() -> None:
    request = generate_request(
        metadata(
            MetadataTensor(name="x", datatype="FP32", shape=[-1, 3, -1], parameters={"content_type": "np"}),
            MetadataTensor(name="n", datatype="UINT8", shape=[0]),
            MetadataTensor(name="t", datatype="BYTES", shape=[-1]),
        ),
        4,
    )
    x, n, t = request.inputs
    assert [tensor.shape for tensor in (x, n, t)] == [[4, 3, 1], [1], [4]]
    assert x.data.to_numpy("FP32").dtype == np.float32
    assert x.parameters is not None
    assert x.parameters.content_type == "np"
    assert n.parameters is None
    assert t.data.flat() == [WORD] * 4
    for tensor in request.inputs:
        tensor.data.check(tensor.datatype, tensor.shape)


def test_runs_send_equal_numbers() -> None:
    described = metadata(MetadataTensor(name="x", datatype="FP64", shape=[5]))
    first, second = (generate_request(described, 1).inputs[0].data.flat() for _ in range(2))
    assert list(first) == list(second)


def test_undeclared_model_needs_a_file() -> None:
    with pytest.raises(
        InvalidSettings, match="model m declares no inputs; give a request with --request FILE"
    ):
        generate_request(metadata(), 1)


def test_file_contains_request(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    tensor = {"name": "x", "shape": [1], "datatype": "INT64", "data": [7]}
    file.write_text(json.dumps({"id": "a", "inputs": [tensor]}))
    request = read_request_file(file)
    assert (request.id, request.inputs[0].data.flat()) == ("a", [7])


@pytest.mark.parametrize("text", ["{", '{"inputs": 5}', "[]"])
def test_file_without_request_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "request.json"
    file.write_text(text)
    with pytest.raises(InvalidSettings, match="request"):
        read_request_file(file)
    with pytest.raises(InvalidSettings, match=r"none\.json: No such file"):
        read_request_file(tmp_path / "none.json")
