"""The request of a load."""

import json
from pathlib import Path

import numpy as np
import pytest

from inferstream.errors import InvalidSettings
from inferstream.tools.bench.samples import WORD, from_file, from_metadata
from inferstream.types import MetadataModelResponse, MetadataTensor


def metadata(*tensors: MetadataTensor) -> MetadataModelResponse:
    return MetadataModelResponse(name="m", platform="", inputs=[*tensors], outputs=[])


def test_a_declared_shape_has_so_many_rows_and_values_of_its_datatype() -> None:
    request = from_metadata(
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


def test_two_runs_send_the_same_numbers() -> None:
    described = metadata(MetadataTensor(name="x", datatype="FP64", shape=[5]))
    first, second = (from_metadata(described, 1).inputs[0].data.flat() for _ in range(2))
    assert list(first) == list(second)


def test_a_model_that_declares_nothing_needs_a_file() -> None:
    with pytest.raises(
        InvalidSettings, match="model m declares no inputs; give a request with --request FILE"
    ):
        from_metadata(metadata(), 1)


def test_a_file_holds_a_request(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    tensor = {"name": "x", "shape": [1], "datatype": "INT64", "data": [7]}
    file.write_text(json.dumps({"id": "a", "inputs": [tensor]}))
    request = from_file(file)
    assert (request.id, request.inputs[0].data.flat()) == ("a", [7])


@pytest.mark.parametrize("text", ["{", '{"inputs": 5}', "[]"])
def test_a_file_that_holds_none_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "request.json"
    file.write_text(text)
    with pytest.raises(InvalidSettings, match="request"):
        from_file(file)
    with pytest.raises(InvalidSettings, match=r"none\.json: No such file"):
        from_file(tmp_path / "none.json")
