"""Tensors of Triton's Python backend."""

import numpy as np
import pytest

from inferstream.plugins.triton.tensor import (
    BackendTensor,
    deserialize_bytes_tensor,
    numpy_to_triton_type,
    serialize_byte_tensor,
    triton_string_to_numpy,
    triton_to_numpy_type,
)
from inferstream.types import RequestInput


def of(datatype: str, shape: list[int], data: list[object]) -> BackendTensor:
    return BackendTensor.of(RequestInput(name="x", datatype=datatype, shape=shape, data=data))


def test_numbers_become_typed_shaped_arrays() -> None:
    tensor = of("FP16", [2, 1], [1.5, 2.5])
    assert (tensor.name(), tensor.shape(), tensor.is_cpu()) == ("x", [2, 1], True)
    assert tensor.as_numpy().dtype == np.float16
    assert tensor.triton_dtype() == 10


def test_strings_become_object_arrays_of_bytes() -> None:
    array = of("BYTES", [1, 2], ["ä", b"\xff"]).as_numpy()
    assert (array.dtype, array.shape) == (np.object_, (1, 2))
    assert array.reshape(-1).tolist() == ["ä".encode(), b"\xff"]


@pytest.mark.parametrize(
    ("array", "datatype", "data"),
    [
        (np.array([[1, 2]], np.int8), "INT8", [1, 2]),
        (np.array([True]), "BOOL", [True]),
        (np.array(["a", "b"]), "BYTES", [b"a", b"b"]),
        (np.array([b"a", "ü"], object), "BYTES", [b"a", "ü".encode()]),
        (np.zeros((0, 3), np.float32), "FP32", []),
    ],
)
def test_arrays_become_outputs(array: np.ndarray, datatype: str, data: list[object]) -> None:
    output = BackendTensor("y", array).to_output()
    assert (output.datatype, output.shape, output.data.flat()) == (datatype, [*array.shape], data)


def test_only_arrays_are_tensors() -> None:
    with pytest.raises(TypeError, match='Tensor "y" must be a NumPy array, got a list'):
        BackendTensor("y", [1])  # type: ignore[arg-type]


def test_memory_is_shared_by_dlpack() -> None:
    array = np.arange(3, dtype=np.float32)
    other = BackendTensor.from_dlpack("y", BackendTensor("x", array))
    assert np.shares_memory(other.as_numpy(), array)
    assert BackendTensor.from_dlpack("z", BackendTensor("x", array).to_dlpack()).as_numpy().tolist() == [
        0,
        1,
        2,
    ]


def test_datatype_names_and_numbers() -> None:
    assert triton_string_to_numpy("TYPE_FP32") is np.float32
    assert triton_string_to_numpy("TYPE_STRING") is np.object_
    assert triton_to_numpy_type(13) is np.object_
    assert triton_to_numpy_type(1) is np.bool_
    assert [numpy_to_triton_type(each) for each in (np.int32, np.object_, np.uint8)] == [8, 13, 2]
    for wrong in ("TYPE_FP8", "", "fp32"):
        with pytest.raises(ValueError, match="is no datatype"):
            triton_string_to_numpy(wrong)
    with pytest.raises(ValueError, match="is no datatype"):
        triton_to_numpy_type(15)


def test_strings_are_length_prefixed_on_the_wire() -> None:
    encoded = serialize_byte_tensor(np.array([b"ab", "c"], object))
    assert encoded.tobytes() == b"\2\0\0\0ab\1\0\0\0c"
    assert deserialize_bytes_tensor(encoded.tobytes()).tolist() == [b"ab", b"c"]
    with pytest.raises(ValueError, match="BYTES"):
        deserialize_bytes_tensor(b"\5\0\0\0a")
