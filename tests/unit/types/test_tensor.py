"""Values that nobody has checked: what NumPy makes of them, and what of them may be taken apart."""

from collections.abc import Sequence

import numpy as np
import pytest

from inferstream.types import ResponseOutput, TensorData


def unchecked(root: object) -> TensorData:
    return TensorData(root, checked=False)


@pytest.mark.parametrize(
    ("datatype", "values", "expected"),
    [
        ("FP32", [True, "1", 2], [1.0, 1.0, 2.0]),
        ("INT64", [1.5, -2.9, True], [1, -2, 1]),
        ("BOOL", [0, 2, "x"], [False, True, True]),
        ("FP64", [[1], [2]], [[1.0], [2.0]]),
    ],
)
def test_numpy_casts(datatype: str, values: list, expected: list) -> None:
    data = unchecked(values)
    assert data.to_numpy(datatype).tolist() == expected
    assert data.root == values
    with pytest.raises(ValueError):
        TensorData(values).check(datatype, [9])


def test_missing_numbers_are_nan() -> None:
    assert np.isnan(unchecked([None]).to_numpy("FP32"))[0]


@pytest.mark.parametrize(
    ("datatype", "values"),
    [("INT8", [300]), ("INT64", [None]), ("FP32", ["x"]), ("FP32", [[1], [2, 3]]), ("FP32", {"a": 1})],
)
def test_invalid_numpy_cast_is_a_value_error(datatype: str, values: object) -> None:
    with pytest.raises(ValueError, match=f"no array of {datatype}"):
        unchecked(values).to_numpy(datatype)


def test_raw_bytes_must_be_complete_elements() -> None:
    for raw, datatype in ((b"123", "FP32"), (b"\x02", "BOOL"), (b"\x05\0\0\0a", "BYTES")):
        data = TensorData.from_raw(raw, datatype)
        data.checked = False
        with pytest.raises(ValueError):
            data.check(datatype, [1])


@pytest.mark.parametrize(
    ("datatype", "values", "shape", "sound"),
    [
        ("FP32", [1, 2.5], [2], True),
        ("FP32", [[1], [2]], [2, 1], True),
        ("FP32", [1, 2], [3], False),
        ("FP32", [True, 2], [2], False),
        ("INT8", [1.5], [1], False),
        ("BYTES", ["a", b"b"], [2], True),
        ("BYTES", [1], [1], False),
    ],
)
def test_checked_tensor_has_valid_content(datatype: str, values: list, shape: list[int], sound: bool) -> None:
    assert unchecked(values).is_sound(datatype, shape) is sound


def test_nested_lists_are_split_by_row() -> None:
    parts = unchecked([[1, 2], [3, 4], [5, 6]]).split("FP32", [2, 4])
    assert [part.root for part in parts] == [[[1, 2]], [[3, 4], [5, 6]]]
    parts = unchecked([[1, 2, 3, 4, 5, 6]]).split("FP32", [2, 4])
    assert [part.root for part in parts] == [[1, 2], [3, 4, 5, 6]]


@pytest.mark.parametrize("values", [range(3), (0, 1, 2), iter([0, 1, 2]), {0: "a", 1: "b", 2: "c"}.keys()])
def test_any_iterable_is_accepted_as_data(values: object) -> None:
    assert ResponseOutput(name="y", shape=[3], datatype="INT64", data=values).data.root == [0, 1, 2]


def test_tensor_data_has_the_root_model_methods() -> None:
    for made in (
        TensorData.model_validate([1, [2]]),
        TensorData.parse_obj([1, [2]]),
        TensorData.parse_raw("[1,[2]]"),
        TensorData.model_validate_json(b"[1,[2]]"),
        TensorData(root=[1, [2]]),
    ):
        assert made.root == made.model_dump() == made.dict() == [1, [2]]
        assert made.json() == made.model_dump_json() == "[1,[2]]"
    assert TensorData.model_validate(made) is made


class Far:
    """Bytes that are elsewhere. It notes how often they are read."""

    def __init__(self, content: bytes, size: int | None = None) -> None:
        self.content, self.size, self.reads = content, len(content) if size is None else size, 0

    def __len__(self) -> int:
        return self.size

    def read_into(self, memory: memoryview) -> None:
        self.reads += 1
        memory[:] = self.content


def accept(data: TensorData, shape: Sequence[int]) -> None:
    data.check("BYTES", shape)


def test_lazy_values_are_read_once() -> None:
    far = Far(np.arange(4, dtype="<f4").tobytes())
    data = TensorData.from_unread(far, "FP32", accept)
    data.check("FP32", [2, 2])
    assert data.is_raw
    assert data.source("FP32") is far
    assert far.reads == 0
    assert data.to_numpy("FP32").tolist() == data.flat() == [0, 1, 2, 3]
    assert data.source("FP32") == far.content
    assert far.reads == 1


def test_lazy_byte_count_is_checked_without_allocation() -> None:
    data = TensorData.from_unread(Far(b"", 2**60), "FP32", accept)
    data.check("FP32", [2**58])
    with pytest.raises(ValueError, match="shape \\[4\\] needs 16 bytes of FP32"):
        data.check("FP32", [4])
    data.checked = False
    data.check("FP32", [4])


def test_lazy_strings_are_checked_once() -> None:
    far = Far(b"\1\0\0\0a")
    data = TensorData.from_unread(far, "BYTES", accept)
    data.check("BYTES", [2])
    assert far.reads == 0
    with pytest.raises(ValueError, match="shape \\[2\\] needs 2 values, got 1"):
        data.flat()
