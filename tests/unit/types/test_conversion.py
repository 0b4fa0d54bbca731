"""Values become exact tensors or a reason why not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.types import TensorData
from inferstream.types.conversion import array_from_values, cast_exactly, flatten, join_bytes, split_bytes
from inferstream.types.datatypes import DTYPES, INTEGERS


@pytest.mark.parametrize("datatype", sorted(INTEGERS))
@given(data=st.data())
def test_integers_in_range_are_exact_and_others_refused(datatype: str, data: st.DataObject) -> None:
    limits = np.iinfo(DTYPES[datatype])
    values = data.draw(st.lists(st.integers(-(2**65), 2**65), min_size=1, max_size=5))
    fits = all(limits.min <= value <= limits.max for value in values)
    if fits:
        assert TensorData(values).to_numpy(datatype).tolist() == values
    else:
        with pytest.raises(ValueError, match="out of range"):
            TensorData(values).to_numpy(datatype)


@pytest.mark.parametrize("datatype", sorted(INTEGERS))
@pytest.mark.parametrize("value", [2.0**64, 1e300, -(2.0**63)])
def test_integers_rounded_by_json_are_refused(datatype: str, value: float) -> None:
    """-2**63 too, because -2**63 - 1 is rounded to it."""
    with pytest.raises(ValueError, match=f"an integer beyond 64 bits is out of range for {datatype}"):
        array_from_values([1, value], datatype)


def test_whole_floats_are_accepted_as_integers() -> None:
    assert array_from_values([2.0, -(2.0**62)], "INT64").tolist() == [2, -(2**62)]
    assert array_from_values([1e19], "UINT64").tolist() == [10**19]


@given(st.lists(st.floats(width=32), max_size=5))
def test_single_precision_values_round_trip(values: list[float]) -> None:
    found = TensorData(values).to_numpy("FP32")
    assert np.array_equal(found, np.array(values, np.float32), equal_nan=True)


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_bytes_elements_round_trip_as_raw_data(values: list[bytes]) -> None:
    assert split_bytes(join_bytes(values)) == values


def test_nested_lists_are_flattened_and_ragged_ones_refused() -> None:
    assert flatten([[1, 2], [3, 4]]) == [1, 2, 3, 4]
    assert flatten("lone") == ["lone"]
    for ragged in ([[1, 2], [3]], [[1], 2]):
        with pytest.raises(ValueError, match="ragged"):
            flatten(ragged)


def test_arrays_are_cast_only_without_loss() -> None:
    assert cast_exactly(np.array([1.0, 2.0]), "INT8").tolist() == [1, 2]
    for array in (np.array([1.5]), np.array([300]), np.array(["x"])):
        with pytest.raises(ValueError, match="INT8 cannot hold"):
            cast_exactly(array, "INT8")


def test_number_never_overflows_to_infinity() -> None:
    for array, datatype in (
        (np.array([1.0, 1e300]), "FP32"),
        (np.array([-1e300]), "FP16"),
        (np.array([70_000], "i8"), "FP16"),
        (np.array([7e4], "f4"), "FP16"),
    ):
        with pytest.raises(ValueError, match=f"a value is out of range for {datatype}"):
            cast_exactly(array, datatype)
    kept = cast_exactly(np.array([np.inf, -np.inf, np.nan, 1e-300]), "FP32")
    np.testing.assert_array_equal(kept, np.array([np.inf, -np.inf, np.nan, 0], "f4"))


def test_changes_to_the_exposed_list_apply() -> None:
    data = TensorData([1.0, 2.0])
    data.check("FP32", [2])
    data.root[0] = 9.0
    assert data.to_numpy("FP32").tolist() == [9.0, 2.0]


def test_raw_values_are_lazy_views() -> None:
    raw = np.arange(4, dtype="<f4").tobytes()
    data = TensorData.from_raw(raw, "FP32")
    data.check("FP32", [2, 2])
    assert data.to_numpy("FP32", [2, 2]).tolist() == [[0, 1], [2, 3]]
    assert bytes(data.to_raw("FP32")) == raw
    assert data.root == [0, 1, 2, 3]
    assert (len(data), data[1], list(data)) == (4, 1, [0, 1, 2, 3])


def test_oversized_number_next_to_missing_one_is_refused() -> None:
    with pytest.raises(ValueError, match="a value is out of range for FP32"):
        array_from_values([None, 3.5e38], "FP32")
    assert np.isinf(array_from_values([None, float("inf")], "FP32")).tolist() == [False, True]
