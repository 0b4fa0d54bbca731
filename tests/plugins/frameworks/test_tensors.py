"""Requests held against what an artefact says of its tensors, by the example of ONNX."""

from typing import Any

import pytest

from inferstream.errors import InvalidRequest, ModelLoadFailed
from inferstream.plugins.frameworks.onnx import OnnxModel
from tests.artefacts import graphs, models
from tests.artefacts.tensor_models import asked, loaded, tensor


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (tensor("flowers", "FP64", [[1.0] * 4]), 'input "flowers": the model takes FP32, got FP64'),
        (
            tensor("flowers", "FP32", [[1.0] * 3]),
            r'input "flowers": the model takes shape \[-1, 4\], got \[1, 3\]',
        ),
        (tensor("flowers", "FP32", [1.0] * 4), r"the model takes shape \[-1, 4\], got \[4\]"),
        (tensor("flowers", "FP32", [[[1.0] * 4] * 2]), r"the model takes shape \[-1, 4\], got \[1, 2, 4\]"),
    ],
)
async def test_wrong_datatype_or_shape_is_named(tmp_path, given: Any, message: str) -> None:
    model = await loaded(OnnxModel, graphs.classifier(tmp_path))
    with pytest.raises(InvalidRequest, match=message):
        asked(model, given)


async def test_inputs_match_by_name_and_single_input_by_any(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.classifier(tmp_path))
    assert len(asked(model, tensor("input-0", "FP32", models.FLOWERS))["species"][1]) == 150
    model = await loaded(OnnxModel, graphs.total(tmp_path))
    a, b = tensor("a", "FP32", [[1, 2]]), tensor("b", "FP32", [[3, 4]])
    for inputs in ((a, b), (b, a)):
        assert asked(model, *inputs)["sum"][1].tolist() == [[4, 6]]
    with pytest.raises(InvalidRequest, match='input "b" is missing'):
        asked(model, a)
    with pytest.raises(InvalidRequest, match='input "c" is not one of the model\'s inputs: a, b'):
        asked(model, a, b, tensor("c", "FP32", [[1]]))


async def test_same_named_dimensions_have_equal_size(tmp_path) -> None:
    model = await loaded(OnnxModel, graphs.total(tmp_path))
    a, b = tensor("a", "FP32", [[1, 2]] * 2), tensor("b", "FP32", [[3, 4]] * 3)
    with pytest.raises(
        InvalidRequest, match='input "b": its dimension "rows" is 3, and that of input "a" is 2'
    ):
        asked(model, a, b)


@pytest.mark.parametrize(
    ("shape", "given", "answered"),
    [
        (["n"], [[1.0], [2.0]], [2.0, 4.0]),
        (["n", 1], [1.0, 2.0], [[2.0], [4.0]]),
        ([], 1.0, 2.0),
    ],
)
async def test_shapes_can_differ_by_trailing_ones(tmp_path, shape: Any, given: Any, answered: Any) -> None:
    """MLServer's codecs send [N, 1] for [N]. Outputs have the shape that the artefact gives them."""
    model = await loaded(OnnxModel, graphs.doubled(tmp_path, shape))
    assert asked(model, tensor("x", "FP32", given))["y"][1].tolist() == answered


@pytest.mark.parametrize("shape", [[1, 2], []])
async def test_incompatible_requests_are_not_batched(tmp_path, shape: list[int]) -> None:
    batching = {"max_batch_size": 8, "max_batch_time": 0.1}
    path = graphs.doubled(tmp_path, shape)
    with pytest.raises(ModelLoadFailed, match="max_batch_time has to be 0, because the shape of input"):
        await loaded(OnnxModel, path, batching)
    await loaded(OnnxModel, path, {"max_batch_size": 8})
    await loaded(OnnxModel, graphs.total(tmp_path), batching)
