"""What all values have in common: single elements, missing ones, and words for errors."""

from typing import Any

import numpy as np
import pytest

from inferstream.codecs.values.base import (
    convert_each,
    describe_fault,
    format_brief,
    get_single,
    list_accepted_inputs,
)
from inferstream.codecs.values.hints import value_for
from inferstream.errors import CodecError
from inferstream.types import RequestInput, TensorData


def tensor(datatype: str, shape: list[int], data: Any) -> RequestInput:
    return RequestInput.of("x", shape, datatype, TensorData(data))


def test_single_value_is_one_element_of_any_shape() -> None:
    assert get_single(tensor("INT64", [1, 1], [[5]])) == 5
    assert get_single(tensor("INT64", [1], np.array([5]))) == 5
    assert get_single(tensor("BYTES", [1], ["a"])) == "a"
    for several in (tensor("INT64", [2], [1, 2]), tensor("BYTES", [2], ["a", "b"]), tensor("INT64", [0], [])):
        with pytest.raises(ValueError, match=r"takes one value, got [02]"):
            get_single(several)


@pytest.mark.parametrize("shape", [[5], [2, 2], [0]])
def test_number_with_wrong_element_count_is_not_a_single_value(shape: list[int]) -> None:
    with pytest.raises(ValueError, match=r"takes one value, got [540]"):
        get_single(tensor("INT64", shape, [1]))
    assert get_single(tensor("BYTES", shape, ["a"])) == "a"


def test_invalid_element_is_named_by_index() -> None:
    with pytest.raises(ValueError, match="element 2 invalid literal"):
        convert_each(int, ["1", "2", "x"])


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
def test_value_in_error_is_shortened(value: Any, shown: str) -> None:
    assert format_brief(value) == shown


def test_deeply_nested_value_is_shown() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert format_brief(deep) == "[[[[[...]]]]]"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("takes an integer"), 'argument "a" takes an integer'),
        (ValueError("not valid JSON"), 'argument "a": not valid JSON'),
        (CodecError("must be small"), 'argument "a" must be small'),
    ],
)
def test_error_is_a_sentence_with_its_argument(error: Exception, said: str) -> None:
    assert describe_fault("a", error) == said


def test_error_ends_with_the_accepted_values() -> None:
    assert list_accepted_inputs([("a", True), ("b", False)]) == "it takes a, b (optional)"
    assert list_accepted_inputs([]) == "it takes no arguments"


def test_default_not_representable_in_json_is_hidden() -> None:
    assert value_for(int).describe_optional(3) == {"optional": True, "default": "3"}
    assert value_for(int).describe_optional(None) == {"optional": True, "default": "null"}
    assert value_for(Any).describe_optional(object()) == {"optional": True}
