"""Requests with long lists of numbers say what others do."""

import json
import re
from collections.abc import Iterator

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.codecs.values.flat import FlatArguments
from inferstream.errors import InvalidRequest
from inferstream.protos import json_arrays, json_requests
from inferstream.protos.generate import parse_flat
from inferstream.protos.json_arrays import cut, parse
from inferstream.protos.json_requests import build_request, load_request
from inferstream.types import MetadataTensor, json_numbers
from inferstream.types.datatypes import DTYPES
from inferstream.types.json_encoding import decode
from inferstream.types.json_numbers import NumbersText

NUMERIC = sorted(set(DTYPES) - {"BOOL"})


def request(data, shape=(3,), datatype: str = "FP32", **more) -> dict:
    return {"inputs": [{"name": "x", "shape": list(shape), "datatype": datatype, "data": data}], **more}


@st.composite
def requests(draw) -> dict:
    tensors = []
    for index in range(draw(st.integers(1, 3))):
        datatype = draw(st.sampled_from(NUMERIC))
        shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        dtype = DTYPES[datatype]
        if dtype.kind == "f":
            values = st.floats(-6e4, 6e4, width=16) | st.integers(-2048, 2048)
        else:
            limits = np.iinfo(dtype)
            values = st.integers(int(limits.min), int(limits.max))
        size = int(np.prod(shape))
        flat = draw(st.lists(values, min_size=size, max_size=size))
        data = np.array(flat, dtype=object).reshape(shape).tolist() if draw(st.booleans()) else flat
        tensors.append({"name": f"x{index}", "shape": shape, "datatype": datatype, "data": data})
    found = {"inputs": tensors}
    if draw(st.booleans()):
        found["id"] = draw(st.text("abc[", max_size=3))
        found["parameters"] = {
            "some": draw(st.none() | st.booleans() | st.floats(0, 1) | st.text("x[", max_size=2))
        }
        found["outputs"] = [{"name": "y", "parameters": {"binary_data": True}}]
    return found


@pytest.fixture(autouse=True, scope="module")
def short_lists() -> Iterator[None]:
    """Lists of a few bytes are long ones here, of several pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_arrays, "LONG", 4)
        patch.setattr(json_numbers, "PIECE", 16)
        for module in (json_arrays, json_requests):
            patch.setattr(module, "LARGE", 1)
        yield


def read(text: bytes, nested: bool = False):
    return build_request(*load_request(text), None, nested=nested)


@given(requests(), st.booleans())
def test_result_matches_the_ordinary_parser(document: dict, spaces: bool) -> None:
    text = json.dumps(document).encode() if spaces else orjson.dumps(document)
    plain, wish = build_request(orjson.loads(text), text, None)
    found, wished = read(text)
    assert wished == wish
    assert found.model_dump(exclude={"inputs"}) == plain.model_dump(exclude={"inputs"})
    for one, other in zip(found.inputs, plain.inputs, strict=True):
        assert (one.name, one.datatype, one.shape) == (other.name, other.datatype, other.shape)
        array, expected = (
            one.data.to_numpy(one.datatype, one.shape),
            other.data.to_numpy(other.datatype, other.shape),
        )
        assert array.dtype == expected.dtype
        assert np.array_equal(array, expected)
        assert array.flags.writeable


@pytest.mark.parametrize("datatype", NUMERIC)
@pytest.mark.parametrize("data", [[1, 2, 3], [[1], [2], [3]], [*range(40)], [[[1, 2], [3, 4]]] * 9])
def test_numbers_become_arrays_without_python_objects(datatype: str, data: list) -> None:
    found, _ = read(orjson.dumps(request(data, datatype=datatype)))
    values = found.inputs[0].data
    assert values.values is None
    assert values.to_numpy(datatype).tolist() == np.array(data).reshape(-1).tolist()


@pytest.mark.parametrize("shape", [[5], [1, 1], [2, 3], [3, 1, 2], [1, 2, 3, 4]])
def test_nested_list_shape_is_detected(shape: list[int]) -> None:
    text = orjson.dumps({"data": np.arange(np.prod(shape)).reshape(shape).tolist()})
    rest, found = cut(text)
    (numbers,) = found.values()
    assert numbers.shape == shape
    assert orjson.loads(rest) == {"data": next(iter(found))}


RAGGED = [[1, [2, 3]], [[1, 2], [3]], [[1, 2], 3], [[[1]], [2, 3]], [1, [], [2, 3]], [[], [[]]]]


@pytest.mark.parametrize(
    "data", [*RAGGED, [1, None, 2], [1, True, 2], [1, "2", 3], [1, {"a": 2}, 3], {"a": 1}, "123", 1]
)
def test_mixed_data_is_read_by_the_ordinary_parser(data) -> None:
    text = orjson.dumps(request(data))
    try:
        expected = build_request(orjson.loads(text), text, None)[0].inputs[0].data.root
    except InvalidRequest as error:
        with pytest.raises(InvalidRequest, match=re.escape(error.message)):
            read(text)
    else:
        assert read(text, nested=True)[0].inputs[0].data.root == expected


@pytest.mark.parametrize(
    "data", ['"data": [1, 2, 3, 4]', '\\"data\\": [1, 2, 3, 4]', '\\\\"data": [1, 2], "b']
)
def test_string_that_looks_like_a_list_stays_a_string(data: str) -> None:
    text = orjson.dumps({"id": data, "inputs": []})
    assert cut(text) == (text, {})


FITS = [("INT32", 1.0), ("INT64", 2.0)]
FITS_NOT = [
    ("UINT8", 256, "256 is out of range for UINT8"),
    ("UINT8", -1, "-1 is out of range for UINT8"),
    ("INT32", 2**31, "2147483648 is out of range for INT32"),
    ("INT64", 2**63, "9223372036854775808 is out of range for INT64"),
    ("UINT64", -1, "-1 is out of range for UINT64"),
    ("INT32", 1.5, "INT32 needs an integer, got 1.5"),
    ("FP16", 70000.0, "a value is out of range for FP16"),
    ("FP32", 1e39, "a value is out of range for FP32"),
]


@pytest.mark.parametrize(("datatype", "value"), FITS)
def test_whole_floats_are_read_as_integers(datatype: str, value: float) -> None:
    found, _ = read(orjson.dumps(request([1] * 20 + [value], (21,), datatype)))
    assert found.inputs[0].data.to_numpy(datatype)[-1] == value


@pytest.mark.parametrize(("datatype", "value", "message"), FITS_NOT)
def test_value_outside_its_datatype_is_named(datatype: str, value: float, message: str) -> None:
    text = orjson.dumps(request([1] * 20 + [value], (21,), datatype))
    with pytest.raises(InvalidRequest, match=f'input "x": {message}'):
        read(text)
    # A model that takes any values gets those that were sent.
    assert read(text, nested=True)[0].inputs[0].data.root == [1] * 20 + [value]


@pytest.mark.parametrize(("datatype", "data"), [("BOOL", [1, 0, 1, 1]), ("BYTES", [1, 2, 3, 4])])
def test_numbers_of_other_datatypes_stay_objects(datatype: str, data: list) -> None:
    assert read(orjson.dumps(request(data, (4,), datatype)))[0].inputs[0].data.root == data


@pytest.mark.parametrize(
    "data",
    [
        "[1,,2,3]",
        "[1,2,3,]",
        "[,1,2,3]",
        "[01,2,3]",
        "[1 2,3]",
        "[1.,2,3]",
        "[[1]2,[3]4]",
        "[[1,2],[3,]]",
        "[1,2,e]",
        "[1,2,3" * 9,
        "[" + "1," * 30 + ",1]",
        "[[1],[2]]]",
        "5[1,2,3]",
        "[1,2,3]5",
    ],
)
def test_invalid_json_is_refused(data: str) -> None:
    text = b'{"inputs": [{"name": "x", "shape": [3], "datatype": "INT64", "data": %b}]}' % data.encode()
    with pytest.raises(InvalidRequest, match="JSON"):
        read(text)


def test_error_position_refers_to_the_whole_document() -> None:
    text = orjson.dumps(request([1, 2, 3, 4]))[:-1] + b", nothing}"
    with pytest.raises(InvalidRequest, match=rf"line 1 column {len(text) - 7}: a name without"):
        read(text)


def test_nan_and_infinity_are_read() -> None:
    text = json.dumps(request([1.5] * 20 + [float("nan"), float("inf")], (22,))).encode()
    values = read(text)[0].inputs[0].data
    assert values.values is None
    assert np.isnan(values.to_numpy("FP32")[20])
    assert np.isinf(values.to_numpy("FP32")[21])


def test_nan_outside_data_is_read_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"parameters": {"a": NaN}, "inputs": []}'
    assert np.isnan(read(text)[0].parameters.a)
    monkeypatch.setattr(json_requests, "MAX_NAN", 16)
    with pytest.raises(InvalidRequest, match="NaN and Infinity may stand in long lists"):
        read(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": [1.0] * 20_000 + [None]}, None),
        ({"data": [1.0] * 20_000 + ["a"]}, "FP32 needs a number, got 'a'"),
        ({"data": [1.0] * 20_000, "shape": [5]}, "shape [5] needs 5 values, got 20000"),
        ({"data": [[1.0] * 10_000, [1.0] * 10_001]}, "ragged"),
    ],
)
def test_large_request_has_the_errors_of_a_small_one(change: dict, message: str | None) -> None:
    document = request([], (20_001,))
    document["inputs"][0].update(change)
    tensor = read(json.dumps(document).encode())[0].inputs[0]
    if message is None:
        tensor.data.check(tensor.datatype, tensor.shape)
        assert np.isnan(tensor.data.to_numpy("FP32")[-1])
    else:
        with pytest.raises(ValueError, match=re.escape(message)):
            tensor.data.check(tensor.datatype, tensor.shape)


def test_duplicate_key_next_to_a_long_list_is_named() -> None:
    text = json.dumps(request([1.0] * 20_000, (20_000,))).encode()[:-1] + b', "id": "a", "id": "b"}'
    with pytest.raises(InvalidRequest, match='"id" is given twice'):
        read(text)


def test_list_outside_data_is_read_by_the_ordinary_parser() -> None:
    text = orjson.dumps({"parameters": {"a": [1, 2, 3, 4]}, "inputs": []})
    assert read(text, nested=True)[0].parameters.a == [1, 2, 3, 4]


def test_ragged_lists_are_not_arrays() -> None:
    for data in RAGGED:
        assert NumbersText.of(orjson.dumps(data)) is None


def test_numbers_outside_tensors_are_python_numbers() -> None:
    document = {"a": [1, 2, 3, 4], "b": [{"c": {"d": [[1.5, 2], [3, 4]]}}], "e": "numbers 0 "}
    assert parse(orjson.dumps(document))[0] == document


def test_plain_numbers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_arrays, "MAX_PLAIN", 10)
    assert parse(b'{"a": [1, 2]}')[0] == {"a": [1, 2]}
    with pytest.raises(InvalidRequest, match='"a" holds 12 bytes of numbers; 10 are allowed'):
        parse(b'{"a": [1, 2, 3, 4]}')
    monkeypatch.setattr(json_arrays, "MAX_COMMAS", 3)
    with pytest.raises(InvalidRequest, match="More than 3 values are in lists"):
        parse(b'["a,,,,,", 1, 2, 3, 4]')


FLAT = [
    {"x": [1, 2, 3, 4]},
    {"x": [[1, 2], [3, 4.5]]},
    {"x": [1.0, 2.0, 3.0]},
    {"x": [1, 2.0, 3]},
    {"x": [1, None, 3]},
    {"x": [True, False, True]},
    {"x": [2**70, 1, 2]},
    {"x": [1, 2, 3], "id": "a", "parameters": {"p": 1}},
    {"inputs": [1, 2, 3, 4]},
]


@pytest.mark.parametrize("document", FLAT)
@pytest.mark.parametrize("declared", [None, "FP32", "INT64", "BOOL", "BYTES"])
@pytest.mark.parametrize("described", [None, "FP32", "UINT8"])
def test_flat_json_with_long_lists_has_ordinary_errors(
    document: dict, declared: str | None, described: str | None
) -> None:
    def tensors(datatype: str | None) -> list[MetadataTensor]:
        return [] if datatype is None else [MetadataTensor(name="x", datatype=datatype, shape=[-1])]

    def flat(found: object, text: bytes) -> object:
        try:
            request = parse_flat(found, text, tensors(declared), tensors(described))
            for tensor in request.inputs:
                tensor.data.check(tensor.datatype, tensor.shape)
        except (InvalidRequest, ValueError) as error:
            return str(error).removeprefix('input "x": ')
        return [(tensor.datatype, tensor.shape, tensor.data.flat()) for tensor in request.inputs], request.id

    text = orjson.dumps(document) if document["x" if "x" in document else "inputs"][0] != 2**70 else None
    text = text or json.dumps(document).encode()
    read = (
        orjson.loads if declared is None else decode
    )  # of undeclared numbers, one beyond 64 bits is a float
    assert flat(*load_request(text)) == flat(read(text), text)


def test_array_argument_is_read_without_a_list() -> None:
    interface = FlatArguments([MetadataTensor(name="x", datatype="FP32", shape=[-1, -1])], strict=True)
    text = orjson.dumps({"x": [[1, 2], [3, 4]]})
    (tensor,) = interface.read(load_request(text)[0])
    (expected,) = interface.read(orjson.loads(text))
    assert tensor.shape == expected.shape == [2, 2]
    assert np.array_equal(tensor.data.to_numpy("FP32"), expected.data.to_numpy("FP32"))
