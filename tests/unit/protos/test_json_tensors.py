"""Large JSON requests say what small ones do, or nothing at all."""

import json

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest
from inferstream.protos.json_requests import build_request, load, load_request
from inferstream.protos.json_tensors import LARGE, load_tensors
from inferstream.types.datatypes import DTYPES

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


@given(requests())
def test_it_reads_what_the_ordinary_way_reads(document: dict) -> None:
    text = orjson.dumps(document)
    plain, wish = build_request(load(text), text, None)
    found = load_tensors(text)
    if found is None:
        assert text.count(b"[") > text.count(b'"shape"') * 2, (
            "nothing here is unusual but a bracket in a string"
        )
        return
    read, wished = build_request(found, text, None)
    assert wished == wish
    assert read.model_dump(exclude={"inputs"}) == plain.model_dump(exclude={"inputs"})
    for one, other in zip(read.inputs, plain.inputs, strict=True):
        assert (one.name, one.datatype, one.shape) == (other.name, other.datatype, other.shape)
        array, expected = (
            one.data.to_numpy(one.datatype, one.shape),
            other.data.to_numpy(other.datatype, other.shape),
        )
        assert array.dtype == expected.dtype
        assert np.array_equal(array, expected)
        assert array.flags.writeable


@pytest.mark.parametrize("datatype", NUMERIC)
@pytest.mark.parametrize("data", [[1, 2, 3], [[1], [2], [3]], []])
def test_numbers_need_no_other_way(datatype: str, data: list) -> None:
    found = load_tensors(orjson.dumps(request(data, datatype=datatype)))
    assert found is not None
    assert found["inputs"][0]["data"].to_numpy(datatype).tolist() == [1, 2, 3][: len(data)]


@pytest.mark.parametrize(
    "data",
    [
        [1, [2, 3]],
        [[1, 2], [3]],
        [[1, 2], 3],
        [[[1]], [2, 3]],
        [1, [], [2, 3]],
        [1, None, 2],
        [1, True, 2],
        [1, "2", 3],
        [1, {"a": 2}, 3],
        {"a": 1},
        "123",
        1,
        [1, 1e39, 2],
    ],
)
def test_what_is_not_plainly_numbers_is_left_to_the_ordinary_way(data) -> None:
    assert load_tensors(orjson.dumps(request(data))) is None


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        ("UINT8", 256),
        ("UINT8", -1),
        ("INT8", -129),
        ("INT32", 2**31),
        ("INT64", 2**63),
        ("UINT64", -1),
        ("INT32", 1.5),
        ("INT32", 1.0),
        ("FP16", 70000.0),
        ("BOOL", True),
        ("BYTES", "a"),
        ("FP3", 1),
        (7, 1),
        ([], 1),
    ],
)
def test_so_is_what_does_not_fit_its_datatype(datatype, value) -> None:
    assert load_tensors(orjson.dumps(request([value], (1,), datatype))) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[1]",
        b"{",
        b'{"inputs": {}}',
        b'{"inputs": [1]}',
        b'{"inputs": [{"name": "x", "data": [1]}]}',
        b'{"inputs": [], "inputs": []}',
        b'{"inputs": [{"name": "x", "name": "y", "shape": [1], "datatype": "FP32", "data": [1]}]}',
        b'{"inputs": [], "parameters": {"a": 1, "a": 2}}',
        b'{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [NaN]}]}',
        b'{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1e400]}]}',
        b'{"inputs": [{"name": "\\ud800", "shape": [1], "datatype": "FP32", "data": [1]}]}',
        b'{"inputs": [{"name": "\xff", "shape": [1], "datatype": "FP32", "data": [1]}]}',
        b'{"inputs": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_so_is_what_is_no_request(text: bytes) -> None:
    assert load_tensors(text) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": [1.0] * 20_000 + [None]}, None),
        ({"data": [1.0] * 20_000 + ["a"]}, "FP32 needs a number, got 'a'"),
        ({"data": [1.0] * 20_000 + [1e39]}, "out of range for FP32"),
        ({"data": [1.0] * 20_000, "shape": [5]}, "shape [5] needs 5 values, got 20000"),
        ({"data": [[1.0] * 10_000, [1.0] * 10_001]}, "ragged"),
    ],
)
def test_a_large_request_is_refused_in_the_words_of_a_small_one(change: dict, message: str | None) -> None:
    document = request([], (20_001,))
    document["inputs"][0].update(change)
    text = json.dumps(document).encode()
    assert len(text) >= LARGE
    read, _ = build_request(load_request(text), text, None)
    tensor = read.inputs[0]
    if message is None:
        tensor.data.check(tensor.datatype, tensor.shape)
        assert np.isnan(tensor.data.to_numpy("FP32")[-1])
    else:
        with pytest.raises(ValueError, match=message.replace("[", r"\[")):
            tensor.data.check(tensor.datatype, tensor.shape)


def test_a_key_given_twice_in_a_large_request_is_named() -> None:
    text = json.dumps(request([1.0] * 20_000, (20_000,))).encode()[:-1] + b', "id": "a", "id": "b"}'
    with pytest.raises(InvalidRequest, match='"id" is given twice'):
        build_request(load_request(text), text, None)


def test_documents_of_all_sizes_and_broken_ones_may_follow_one_another() -> None:
    """The parser is kept from one to the next, and another taken for one that is much smaller."""
    for size in (200_000, 10_000, 200_000, 300_000, 10_000):
        values = [float(i) for i in range(size)]
        text = orjson.dumps(request(values, (size,)))
        found = load_tensors(text)
        assert found is not None
        assert found["inputs"][0]["data"].to_numpy("FP32").tolist() == values
        assert load_tensors(text[:-1]) is None
