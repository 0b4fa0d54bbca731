"""Large typed contents are the arrays that protobuf's numbers make, and what it refuses or merges is left to it."""

from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest
from inferstream.protos.dataplane_pb2 import InferTensorContents, ModelInferRequest
from inferstream.protos.grpc import FIELDS, parse_request, wants_typed_contents
from inferstream.protos.grpc_requests import LARGE, InferRequests, LargeRequest, message_size
from inferstream.protos.packed import PIECE
from inferstream.types.datatypes import DTYPES

READER = InferRequests(10**6)

EDGES: dict[str, list[Any]] = {
    "BOOL": [True, False, True],
    "UINT8": [0, 255, 128],
    "UINT16": [0, 65_535, 128],
    "UINT32": [0, 2**32 - 1, 2**14],
    "UINT64": [0, 2**64 - 1, 2**63],
    "INT8": [-128, 127, -1],
    "INT16": [-(2**15), 2**15 - 1, -1],
    "INT32": [-(2**31), 2**31 - 1, 0],
    "INT64": [-(2**63), 2**63 - 1, -1],
    "FP32": [0.5, -np.inf, np.nan],
    "FP64": [1e300, -0.0, np.nan],
}


def tensor(datatype: str, values: list[Any], name: str = "x") -> ModelInferRequest.InferInputTensor:
    contents = InferTensorContents()
    getattr(contents, FIELDS[datatype]).extend(values)
    return ModelInferRequest.InferInputTensor(
        name=name, datatype=datatype, shape=[len(values)], contents=contents
    )


def bytes_of(*inputs: ModelInferRequest.InferInputTensor) -> bytes:
    return ModelInferRequest(model_name="m", id="i", inputs=inputs).SerializeToString()


def arrays(found: Any) -> list[Any]:
    return [each.data.to_numpy(each.datatype) for each in parse_request(found).inputs]


@pytest.mark.parametrize("datatype", EDGES)
@given(st.data())
def test_numbers_match_protobuf(datatype: str, data: st.DataObject) -> None:
    small = data.draw(st.lists(st.sampled_from(EDGES[datatype]), min_size=1, max_size=50))
    size = data.draw(st.sampled_from([LARGE, PIECE, 2 * PIECE + 77]))
    values = (small * (size // len(small) + 1))[:size]
    sent = bytes_of(
        tensor("INT32", [1, -2], "before"), tensor(datatype, values), tensor("FP32", [0.5], "behind")
    )
    found = READER.FromString(sent)
    assert isinstance(found, LargeRequest)
    assert list(found.packed) == [1]
    assert found.packed[1].array.dtype.itemsize * size == found.packed[1].array.nbytes
    before, read, behind = arrays(found)
    assert (before.tolist(), behind.tolist()) == ([1, -2], [0.5])
    assert read.dtype == DTYPES[datatype]
    assert read.flags.writeable
    np.testing.assert_array_equal(read, np.array(values, DTYPES[datatype]))
    assert wants_typed_contents(found)
    assert [each.name for each in found.inputs] == ["before", "x", "behind"]
    assert message_size(found) >= size


def test_out_of_range_number_is_refused() -> None:
    contents = InferTensorContents(int_contents=[128] * LARGE)
    sent = bytes_of(
        ModelInferRequest.InferInputTensor(name="x", datatype="INT8", shape=[LARGE], contents=contents)
    )
    with pytest.raises(InvalidRequest, match='input "x": INT8'):
        arrays(READER.FromString(sent))


def test_contents_of_wrong_datatype_are_refused() -> None:
    contents = InferTensorContents(fp32_contents=[0.5] * LARGE)
    sent = bytes_of(
        ModelInferRequest.InferInputTensor(name="x", datatype="INT8", shape=[LARGE], contents=contents)
    )
    with pytest.raises(InvalidRequest, match='"x": INT8 belongs into int_contents, got fp32_contents'):
        parse_request(READER.FromString(sent))


def length(size: int) -> bytes:
    return bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])


def within(contents: bytes) -> bytes:
    """A message of one input with these contents as its last field, twice the first byte of each key."""
    head = ModelInferRequest.InferInputTensor(name="x", datatype="UINT64", shape=[1]).SerializeToString()
    whole = head + b"\x2a" + length(len(contents)) + contents
    return b"\x2a" + length(len(whole)) + whole


ODD = {
    "two packed fields": (b"\x2a" + length(LARGE) + b"\1" * LARGE) * 2,
    "another field behind": b"\x2a" + length(LARGE) + b"\1" * LARGE + b"\x08\x01",
    "one number at a time": b"\x28\x01" * LARGE,
    "an open varint": b"\x2a" + length(LARGE) + b"\1" * (LARGE - 1) + b"\x81",
    "a varint of eleven bytes": b"\x2a" + length(LARGE) + b"\1" * (LARGE - 11) + b"\x81" * 10 + b"\1",
    "no end at all": b"\x2a" + length(LARGE) + b"\x81" * LARGE,
    "a length that is too large": b"\x2a" + length(2 * LARGE) + b"\1" * LARGE,
}


@pytest.mark.parametrize("odd", ODD)
def test_invalid_packed_field_is_left_to_protobuf(odd: str) -> None:
    data = within(ODD[odd])
    try:
        expected = list(ModelInferRequest.FromString(data).inputs[0].contents.uint64_contents)
    except DecodeError:
        with pytest.raises(DecodeError):
            READER.FromString(data)
        return
    found = READER.FromString(data)
    assert list(found.inputs[0].contents.uint64_contents) == expected


def test_contents_together_with_raw_contents_are_refused() -> None:
    message = ModelInferRequest(inputs=[tensor("INT32", [1] * LARGE)], raw_input_contents=[b"a" * 4 * LARGE])
    with pytest.raises(InvalidRequest, match="exclude each other"):
        parse_request(READER.FromString(message.SerializeToString()))
