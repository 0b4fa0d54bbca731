"""One of several values."""

import enum
from typing import Any, Literal

import pytest

from inferstream.codecs.values.hints import value_for
from inferstream.errors import CodecError

from .samples import Color, Level


class Other(enum.Enum):
    RED = "red"


def test_enum_member_is_sent_as_its_value() -> None:
    value = value_for(Color)
    assert value.encode_output("y", Color.RED).data.flat() == ["red"]
    assert value.decode_input(value.encode_input("x", Color.BLUE)) is Color.BLUE
    assert (value.from_json("red"), value.to_json(Color.RED)) == (Color.RED, "red")


def test_value_of_a_member_is_written_and_another_refused() -> None:
    assert value_for(Color).encode_output("y", "red").data.flat() == ["red"]
    with pytest.raises(CodecError, match=r"output \"y\": takes one of 'red', 'blue', got 'green'"):
        value_for(Color).encode_output("y", "green")
    with pytest.raises(ValueError, match="takes one of 1, 2, got 3"):
        value_for(Level).from_json(3)


@pytest.mark.parametrize("given", ["red", Other.RED])
def test_only_enum_member_matches_its_type(given: Any) -> None:
    value_for(Color).check(Color.RED)
    with pytest.raises(TypeError, match="takes a member of Color, got"):
        value_for(Color).check(given)


def test_literal_choices_accept_any_listed_value() -> None:
    value = value_for(Literal["red", "blue"])
    value.check("red")
    assert value.encode_input("x", Other.RED).data.flat() == ["red"]
    assert value.tensor("x").parameters.get("choices") == '["red","blue"]'  # type: ignore[union-attr]
