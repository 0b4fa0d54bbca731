"""Nested lists and tables in flat JSON."""

import json
from typing import Any

import numpy as np
import pytest

from inferstream.errors import InvalidRequest
from inferstream.protos.generate import parse_flat
from inferstream.protos.json_requests import load_request
from inferstream.types import InferenceRequest, MetadataTensor


def parse(
    document: Any, *declared: MetadataTensor, described: tuple[MetadataTensor, ...] = ()
) -> InferenceRequest:
    text = json.dumps(document).encode()
    return parse_flat(*load_request(text), declared, described)


def only(request: InferenceRequest) -> tuple[str, str, list[int], list[Any]]:
    (tensor,) = request.inputs
    tensor.data.check(tensor.datatype, tensor.shape)
    return tensor.name, tensor.datatype, tensor.shape, tensor.data.flat()


def declared(name: str, datatype: str, shape: list[int]) -> MetadataTensor:
    return MetadataTensor(name=name, datatype=datatype, shape=shape)


@pytest.mark.parametrize("large", [False, True])
def test_nested_lists_become_a_tensor_of_their_shape(large: bool) -> None:
    rows = np.arange(20_000 if large else 4).reshape(-1, 2).tolist()
    shape, values = [len(rows), 2], [value for row in rows for value in row]
    assert only(parse({"x": rows})) == ("x", "INT64", shape, values)
    assert only(parse({"x": rows}, declared("x", "FP32", [-1, 2]))) == ("x", "FP32", shape, values)
    described = (declared("x", "FP64", [-1, 2]),)
    assert only(parse({"x": rows}, described=described)) == ("x", "FP64", shape, values)


def test_deeper_lists_and_strings_are_accepted() -> None:
    assert only(parse({"x": [[[1.5], [2]], [[3], [4]]]})) == ("x", "FP64", [2, 2, 1], [1.5, 2, 3, 4])
    assert only(parse({"x": [["a", "b"]]})) == ("x", "BYTES", [1, 2], ["a", "b"])
    assert only(parse({"x": [["a", "b"]]}, declared("x", "BYTES", [-1, 2])))[2] == [1, 2]
    assert only(parse({"x": [[]]})) == ("x", "BYTES", [1, 0], [])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1, 2], [3]], r"x\[1\] is a list of 1, and x\[0\] is a list of 2"),
        ([[[1], [2]], [[3], [4, 5]]], r"x\[1\]\[1\] is a list of 2, and x\[0\]\[0\] is a list of 1"),
        ([1, 2.5, [3]], r"x\[2\] is a list of 1, and x\[0\] is a value"),
        ([[1], 2], r"x\[1\] is a value, and x\[0\] is a list of 1"),
    ],
)
def test_ragged_list_is_refused_with_its_location(value: Any, message: str) -> None:
    for inputs in ((), (declared("x", "FP32", [-1, 2]),)):
        with pytest.raises(InvalidRequest, match=f'input "x" is ragged: {message}'):
            parse({"x": value}, *inputs)


def test_too_deep_list_and_object_are_refused() -> None:
    deep: Any = [1]
    for _ in range(40):
        deep = [deep]
    with pytest.raises(InvalidRequest, match='input "x" is nested deeper than 32 levels'):
        parse({"x": deep})
    with pytest.raises(InvalidRequest, match='input "x" must be a value or lists of values'):
        parse({"x": [{"a": 1}]})


@pytest.mark.parametrize(
    ("values", "datatype"),
    [
        ([1, 2], "INT64"),
        ([1, 2.0], "INT64"),
        ([1, 2.5], "FP64"),
        ([1.5, 2], "FP64"),
        ([1, None], "FP64"),
        ([None, 1.5], "FP64"),
        ([True, False], "BOOL"),
        (["a", None], "BYTES"),
        ([], "BYTES"),
    ],
)
def test_datatype_of_undeclared_values(values: list[Any], datatype: str) -> None:
    name, found, shape, _ = only(parse({"x": values}))
    assert (name, found, shape) == ("x", datatype, [len(values)])


def test_description_assists_without_enforcing() -> None:
    described = (declared("x", "FP64", [-1, 4]), declared("age", "FP64", [-1]), declared("id", "INT64", [-1]))
    assert only(parse({"x": [1, 2, 3, 4]}, described=described)) == ("x", "FP64", [1, 4], [1, 2, 3, 4])
    assert only(parse({"x": [1, 2, 3]}, described=described)) == ("x", "FP64", [3], [1, 2, 3])
    assert only(parse({"age": 3}, described=described)) == ("age", "FP64", [1], [3])
    assert only(parse({"age": "three"}, described=described)) == ("age", "BYTES", [1], ["three"])
    assert only(parse({"id": [7]}, described=described)) == ("id", "INT64", [1], [7])
    assert only(parse({"other": [[1]]}, described=described)) == ("other", "INT64", [1, 1], [1])


def test_list_of_objects_is_a_table() -> None:
    rows = [{"age": 20, "city": "Rome", "id": 1}, {"id": 2, "age": 30.5, "city": "Oslo"}]
    found = parse(rows)
    assert [(each.name, each.datatype, each.data.flat()) for each in found.inputs] == [
        ("age", "FP64", [20, 30.5]),
        ("city", "BYTES", ["Rome", "Oslo"]),
        ("id", "INT64", [1, 2]),
    ]
    typed = parse(rows, declared("age", "FP32", [-1]), declared("city", "BYTES", [-1, 1]))
    assert [(each.datatype, each.shape) for each in typed.inputs] == [
        ("FP32", [2]),
        ("BYTES", [2, 1]),
        ("INT64", [2]),
    ]


def test_row_with_missing_key_is_refused_with_its_number() -> None:
    with pytest.raises(InvalidRequest, match='row 1 has no "b", which row 0 has'):
        parse([{"a": 1, "b": 2}, {"a": 1}])
    with pytest.raises(InvalidRequest, match='row 0 has no "b", which row 2 has'):
        parse([{"a": 1}, {"a": 2}, {"a": 1, "b": 2}])
    for wrong in ([], [1], [{"a": 1}, 2]):
        with pytest.raises(InvalidRequest, match="must be a JSON object, or a list of objects"):
            parse(wrong)
    text = b'[{"a": 1, "a": 2}]'
    with pytest.raises(InvalidRequest, match='key "a" is given twice'):
        parse_flat(*load_request(text), [])
