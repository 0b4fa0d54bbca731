"""Triton's classification extension, over the doors and by itself."""

import numpy as np
import pytest

from inferstream import ModelSettings
from inferstream.errors import InvalidRequest, InvalidSettings
from inferstream.plugins.triton.classification import Classification, build_classification
from inferstream.types import Parameters, RequestOutput, ResponseOutput


def scores(values: object, datatype: str = "FP32") -> ResponseOutput:
    array = np.array(values)
    return ResponseOutput(name="p", shape=[*array.shape], datatype=datatype, data=array.tolist())


def wanted(count: object) -> list[RequestOutput]:
    return [RequestOutput(name="p", parameters=Parameters(classification=count))]


def texts(
    output: ResponseOutput, count: int, labels: tuple[str, ...] = (), batches: bool | None = None
) -> object:
    (classes,) = Classification({"p": labels}, batches)([output], wanted(count))
    assert classes.datatype == "BYTES"
    return classes.shape, [each.decode() for each in classes.data.flat()]


def test_highest_scores_come_first_with_index_and_label() -> None:
    assert texts(scores([0.25, 0.5, 0.125]), 2, ("cat", "dog")) == ([2], ["0.500000:1:dog", "0.250000:0:cat"])
    assert texts(scores([3, 1, 7], "INT32"), 1) == ([1], ["7:2"])
    assert texts(scores([3, 1, 200], "UINT8"), 3) == ([3], ["200:2", "3:0", "1:1"])


def test_equal_scores_keep_class_order() -> None:
    assert texts(scores([1, 2, 2, 0], "INT64"), 3) == ([3], ["2:1", "2:2", "1:0"])


def test_each_batch_row_has_own_classes() -> None:
    assert texts(scores([[1.0, 2.0], [4.0, 3.0]]), 1) == ([2, 1], ["2.000000:1", "4.000000:0"])
    assert texts(scores([1.0, 2.0]), 1, batches=True) == ([2, 1], ["1.000000:0", "2.000000:0"])
    assert texts(scores([[[1, 9], [5, 2]]], "INT32"), 2) == ([1, 2], ["9:1", "5:2"])


@pytest.mark.parametrize(
    ("shape", "batches", "found"),
    [
        ([2, 3], None, [2, 1]),
        ([2, 3], True, [2, 1]),
        ([2, 3], False, [1]),
        ([6], None, [1]),
        ([6], True, [6, 1]),
        ([6], False, [1]),
        ([1, 2, 3], False, [1]),
        ([2, 1, 3], True, [2, 1]),
    ],
)
def test_first_dimension_is_batch_if_model_batches(
    shape: list[int], batches: bool | None, found: list[int]
) -> None:
    assert texts(scores(np.arange(6).reshape(shape)), 1, batches=batches)[0] == found  # type: ignore[index]


@pytest.mark.parametrize(
    ("config", "size", "batches"),
    [
        (None, 1, None),
        (None, 8, True),
        ({"max_batch_size": 0}, 8, False),
        ({"max_batch_size": 4}, 1, True),
        ({"name": "m"}, 1, False),
    ],
)
def test_configuration_enables_batching(config: object, size: int, batches: object) -> None:
    parameters = {} if config is None else {"model_configuration": config}
    settings = ModelSettings(name="m", implementation="a.B", max_batch_size=size, parameters=parameters)
    assert build_classification(settings).batches is batches


def test_empty_label_adds_no_colon() -> None:
    assert texts(scores([3, 1, 7], "INT32"), 3, ("cat", "", "")) == ([3], ["7:2", "3:0:cat", "1:1"])


def test_surplus_class_count_returns_all_classes() -> None:
    assert texts(scores([1.0]), 9) == ([1], ["1.000000:0"])
    empty = ResponseOutput(name="p", shape=[0], datatype="FP32", data=[])
    assert texts(empty, 2) == ([0], [])


def test_other_outputs_are_unchanged() -> None:
    outputs = [scores([1.0])]
    assert Classification()(outputs, [RequestOutput(name="p")]) is outputs
    assert Classification()(outputs, wanted(0)) is outputs


@pytest.mark.parametrize("count", [-1, True, "2", 1.5])
def test_invalid_count_is_refused(count: object) -> None:
    with pytest.raises(InvalidRequest, match="must be a whole number"):
        Classification()([scores([1.0])], wanted(count))


def test_strings_are_not_scores() -> None:
    output = ResponseOutput(name="p", shape=[1], datatype="BYTES", data=["a"])
    with pytest.raises(InvalidRequest, match="values of BYTES are no scores"):
        Classification()([output], wanted(1))


def declaring(folder, name: str) -> ModelSettings:
    output = {"name": "p", "datatype": "FP32", "shape": [2], "parameters": {"label_filename": name}}
    settings = ModelSettings(implementation="a.B", name="m", outputs=[output])
    settings._source = str(folder / "model-settings.json")
    return settings


def test_labels_come_from_file_next_to_settings(tmp_path) -> None:
    (tmp_path / "labels.txt").write_text("cat\ndog\n")
    assert build_classification(declaring(tmp_path, "labels.txt")).labels == {"p": ["cat", "dog"]}


@pytest.mark.parametrize("name", ["none.txt", "../labels.txt", "/etc/hostname"])
def test_missing_or_outside_label_file_fails_load(tmp_path, name: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "labels.txt").write_text("a")
    with pytest.raises(InvalidSettings, match="label_filename") as wrong:
        build_classification(declaring(tmp_path / "model", name))
    assert str(tmp_path) not in wrong.value.message, "clients read why a model did not load"
