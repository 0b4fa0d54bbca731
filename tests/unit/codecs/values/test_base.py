"""What all values have in common: single elements, missing ones, and words for errors."""

from typing import Any

import numpy as np
import pytest

from inferstream.codecs.values.base import brief, each, fault_of, single, taken
from inferstream.codecs.values.hints import value_of
from inferstream.errors import CodecError
from inferstream.types import RequestInput, TensorData


def tensor(datatype: str, shape: list[int], data: Any) -> RequestInput:
    return RequestInput.of("x", shape, datatype, TensorData(data))


def test_a_single_value_is_one_element_in_whatever_shape() -> None:
    assert single(tensor("INT64", [1, 1], [[5]])) == 5
    assert single(tensor("INT64", [1], np.array([5]))) == 5
    assert single(tensor("BYTES", [1], ["a"])) == "a"
    for several in (tensor("INT64", [2], [1, 2]), tensor("BYTES", [2], ["a", "b"]), tensor("INT64", [0], [])):
        with pytest.raises(ValueError, match=r"takes one value, got [02]"):
            single(several)


@pytest.mark.parametrize("shape", [[5], [2, 2], [0]])
def test_a_number_whose_shape_says_another_count_is_no_single_value(shape: list[int]) -> None:
    with pytest.raises(ValueError, match=r"takes one value, got [540]"):
        single(tensor("INT64", shape, [1]))
    assert single(tensor("BYTES", shape, ["a"])) == "a"


def test_a_wrong_element_is_named_by_its_index() -> None:
    with pytest.raises(ValueError, match="element 2 invalid literal"):
        each(int, ["1", "2", "x"])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        ("a" * 50, "'" + "a" * 36 + "..."),
        ([1, [2]], "[1, [2]]"),
        ({"a": {"b": 1}}, "{'a': {'b': 1}}"),
    ],
)
def test_a_value_in_an_error_is_short(value: Any, shown: str) -> None:
    assert brief(value) == shown


def test_a_value_nested_deeper_than_python_can_follow_is_shown_too() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert brief(deep) == "[[[[[...]]]]]"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("takes an integer"), 'argument "a" takes an integer'),
        (ValueError("not valid JSON"), 'argument "a": not valid JSON'),
        (CodecError("must be small"), 'argument "a" must be small'),
    ],
)
def test_a_fault_is_a_sentence_with_its_argument(error: Exception, said: str) -> None:
    assert fault_of("a", error) == said


def test_what_a_model_takes_is_the_end_of_a_refusal() -> None:
    assert taken([("a", True), ("b", False)]) == "it takes a, b (optional)"
    assert taken([]) == "it takes no arguments"


def test_a_default_that_json_cannot_hold_is_not_shown() -> None:
    assert value_of(int).optional(3) == {"optional": True, "default": "3"}
    assert value_of(int).optional(None) == {"optional": True, "default": "null"}
    assert value_of(Any).optional(object()) == {"optional": True}
