"""Large arrays in the bytes of typed messages."""

import tracemalloc

import pytest

from inferstream.errors import InvalidRequest
from inferstream.protos.grpc_requests import LARGE
from inferstream.protos.grpc_responses import encode_varint

from .test_typed_requests import ARRAYS


def test_large_array_is_not_copied() -> None:
    data = ARRAYS.message(x={"shape": [2**20, 2], "dtype": "float", "data": bytes(2**23)}).SerializeToString()
    tracemalloc.start()
    try:
        request = ARRAYS.read(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert request.inputs[0].data.to_numpy("FP32", [2**20, 2]).shape == (2**20, 2)


def test_repeated_array_field_is_merged_as_in_protobuf() -> None:
    first = ARRAYS.message(x={"shape": [LARGE], "dtype": "float", "data": bytes(LARGE)}).SerializeToString()
    second = ARRAYS.message(x={"shape": [2], "data": bytes(8 * LARGE)}).SerializeToString()
    merged = ARRAYS.message.FromString(first + second)
    [tensor] = ARRAYS.read(first + second).inputs
    assert tensor.shape == [*merged.x.shape] == [LARGE, 2]
    assert bytes(tensor.data.to_raw("FP32")) == merged.x.data


@pytest.mark.parametrize("size", [1, LARGE])
def test_invalid_array_bytes_name_the_array(size: int) -> None:
    for garbage, fault in ((b"\xff" * size, "is no TensorProto"), (b"\x50\x01" * size, "field 10")):
        with pytest.raises(InvalidRequest, match=f'argument "x" in field 1 .*{fault}'):
            ARRAYS.read(b"\x0a" + block(garbage))
        with pytest.raises(InvalidRequest, match='argument "x" in field 1 '):
            ARRAYS.read(b"\x0a" + block(b"\x1a" + block(bytes(LARGE)) + garbage))


def block(data: bytes) -> bytes:
    return encode_varint(len(data)) + data
