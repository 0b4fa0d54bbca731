"""Lists of values, looked at together."""

import math
from typing import Any

import numpy as np
import pytest

from inferstream.codecs.values.hints import value_for
from inferstream.errors import CodecError
from inferstream.types import RequestInput, TensorData

from .samples import through_binary, through_json


def test_large_list_is_read_at_once() -> None:
    """A tensor object for each of a million numbers took seconds."""
    numbers = np.arange(300_000, dtype=np.int64)
    tensor = RequestInput.of(name="x", datatype="INT64", shape=[300_000], data=TensorData(numbers))
    made = TensorData.__init__
    count = 0

    def counting(self: TensorData, root: Any) -> None:
        nonlocal count
        count += 1
        made(self, root)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TensorData, "__init__", counting)
        assert value_for(list[int]).decode_input(tensor)[-1] == 299_999
    assert count == 0


def test_repeated_scalar_is_refused_before_expansion() -> None:
    numbers = np.zeros(1000)
    tensor = RequestInput.of(name="x", datatype="FP64", shape=[1000], data=TensorData(numbers))
    with pytest.raises(CodecError, match="takes one value, got 1000"):
        value_for(float).decode_input(tensor)
    assert tensor.data.values is None


def test_batch_items_are_separate_elements() -> None:
    value = value_for(list[list[float]], by_item=True)
    tensor = value.encode_input("x", [[1.0], [], [0.5, 2.0]])
    assert (tensor.datatype, tensor.shape) == ("BYTES", [3])
    assert value.decode_input(through_binary(tensor)) == [[1.0], [], [0.5, 2.0]]
    assert value.decode_input(through_json(value, "x", tensor)) == [[1.0], [], [0.5, 2.0]]
    assert value_for(list[int], by_item=True).encode_input("x", [1, 2]).datatype == "INT64"


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (list[str], ["a", ""]),
        (list[bool], [True, False]),
        (list[int], [1, np.int8(-3), 2**63 - 1]),
        (list[float], [1, 0.5, np.float32(0.25), math.inf]),
        (list[np.float32], [0.5, np.float32(0.25)]),
        (list[np.int8], [127, -128]),
    ],
)
def test_list_elements_are_checked_together(
    hint: Any, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    value: Any = value_for(hint)
    one_by_one = [value.of.element(each) for each in values]

    def costly(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(type(value.of), "element", costly)
    monkeypatch.setattr(type(value.of), "from_json", costly)
    for shape, elements in (value.write(values), value.from_flat(values)):
        assert (shape, elements) == ([len(values)], one_by_one)
        assert [*map(type, elements)] == [*map(type, one_by_one)]
        assert elements is not values


@pytest.mark.parametrize(
    ("hint", "values", "fault"),
    [
        (list[int], [1, 2**63], "element 1 "),
        (list[int], [1, True], "element 1 takes an integer, got true"),
        (list[np.int8], [1, 128], "element 1 "),
        (list[np.float32], [1.0, 3.5e38], "element 1 a value is out of range for FP32"),
        (list[float], [1.0, 10**400], "element 1 "),
        (list[float], [1.0, "2"], "element 1 takes a number, got '2'"),
        (list[str], ["a", 1], "element 1 takes text, got 1"),
        (list[bool], [True, 1], "element 1 takes true or false, got 1"),
    ],
)
def test_invalid_list_element_is_named(hint: Any, values: list[Any], fault: str) -> None:
    value: Any = value_for(hint)
    for convert in (value.write, value.from_flat):
        with pytest.raises((TypeError, ValueError)) as wrong:
            convert(values)
        assert str(wrong.value).startswith(fault)
