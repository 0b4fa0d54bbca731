"""NumPy arrays in tensors, and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from inferstream.codecs import NumpyCodec
from inferstream.errors import CodecError
from inferstream.types import RequestInput, TensorData
from inferstream.types.datatypes import DTYPES

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
NUMBERS = {name: dtype for name, dtype in DTYPES.items() if name != "BF16"}


def over_json(tensor: RequestInput) -> RequestInput:
    return RequestInput.parse_raw(tensor.json())


def over_raw(tensor: RequestInput) -> RequestInput:
    raw = bytes(tensor.data.to_raw(tensor.datatype))
    return RequestInput(
        name=tensor.name,
        shape=tensor.shape,
        datatype=tensor.datatype,
        data=TensorData.from_raw(raw, tensor.datatype),
    )


WIRES = {"none": lambda tensor: tensor, "json": over_json, "raw": over_raw}
"""What a tensor crosses. Each array crosses all of them, because data takes longer to make than to check."""


def batched(array: np.ndarray) -> np.ndarray:
    return array.reshape(1) if array.ndim == 0 else array[:, None] if array.ndim == 1 else array


@pytest.mark.parametrize("datatype", NUMBERS)
def test_numbers_of_every_shape_round_trip(datatype: str) -> None:
    dtype = NUMBERS[datatype]
    finite = {"allow_nan": False, "allow_infinity": False} if dtype.kind == "f" else {}

    @given(hnp.arrays(dtype, SHAPES, elements=hnp.from_dtype(dtype, **finite)))
    def check(array: np.ndarray) -> None:
        for name, wire in WIRES.items():
            tensor = wire(NumpyCodec.encode_input("x", array))
            found = NumpyCodec.decode_input(tensor)
            assert (tensor.datatype, found.dtype) == (datatype, dtype), name
            assert found.shape == batched(array).shape == tuple(tensor.shape), name
            assert np.array_equal(found, batched(array)), name

    check()


# A fixed-width NumPy text cannot end in NUL: what is shorter than the width is filled with them.
FIXED_WIDTH = st.text(st.characters(codec="utf-8"), max_size=8).map(lambda text: text.rstrip("\0"))


def test_string_arrays_round_trip() -> None:
    @given(hnp.arrays(np.dtype("U8"), SHAPES, elements=FIXED_WIDTH))
    def check(array: np.ndarray) -> None:
        for name in ("none", "json"):
            found = NumpyCodec.decode_input(WIRES[name](NumpyCodec.encode_input("x", array)))
            texts = [
                value.decode() if isinstance(value, bytes) else value for value in found.reshape(-1).tolist()
            ]
            assert texts == array.reshape(-1).tolist(), name
            assert found.shape == batched(array).shape, name

    check()


@given(st.lists(st.binary()))
def test_bytes_arrays_keep_lengths_and_trailing_zeros(values: list[bytes]) -> None:
    array = np.empty(len(values), object)
    array[:] = values
    found = NumpyCodec.decode_input(over_raw(NumpyCodec.encode_input("x", array)))
    assert found.reshape(-1).tolist() == values


def test_missing_numbers_are_null_in_json_and_nan_in_arrays() -> None:
    tensor = NumpyCodec.encode_input("x", np.array([1.0, np.nan]))
    assert tensor.data.root == [1.0, None]
    assert np.isnan(NumpyCodec.decode_input(over_json(tensor))[1, 0])


def test_bf16_is_float32_in_numpy() -> None:
    tensor = RequestInput(
        name="x", shape=[2], datatype="BF16", data=TensorData.from_raw(b"\x80\x3f\x00\xc0", "BF16")
    )
    found = NumpyCodec.decode_input(tensor)
    assert (found.dtype, found.tolist()) == (np.float32, [1.0, -2.0])


def test_byte_order_is_normalized() -> None:
    tensor = NumpyCodec.encode_input("x", np.array([1.5, 2], ">f4"))
    assert NumpyCodec.decode_input(over_raw(tensor)).tolist() == [[1.5], [2.0]]


def test_encoded_array_is_not_copied() -> None:
    array = np.ones((2, 3), np.float32)
    assert NumpyCodec.encode_output("x", array).data.array is array


@given(
    hnp.arrays(
        st.sampled_from([bool, np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0),
    )
)
def test_arrays_round_trip(array: np.ndarray) -> None:
    tensor = NumpyCodec.encode_input("x", array)
    shape = list(array.shape)
    assert tensor.shape == ([1] if not shape else [*shape, 1] if len(shape) == 1 else shape)
    found = NumpyCodec.decode_input(tensor)
    assert found.dtype == array.dtype
    assert np.array_equal(found.reshape(array.shape), array, equal_nan=True)


def test_string_and_bytes_arrays() -> None:
    assert NumpyCodec.encode_output("x", np.array(["a", "bc"])).data.root == [b"a", b"bc"]
    uneven = RequestInput(name="x", shape=[2], datatype="BYTES", data=[b"a", b"bcd"])
    assert NumpyCodec.decode_input(uneven).tolist() == [b"a", b"bcd"]


@pytest.mark.parametrize("array", [np.array(["2026"], "datetime64[Y]"), np.array([1j])])
def test_unsupported_dtypes_are_refused(array: np.ndarray) -> None:
    with pytest.raises(CodecError, match="no V2 datatype"):
        NumpyCodec.encode_output("x", array)
