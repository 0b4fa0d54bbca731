"""Rules of single values and lists, whichever way the values come."""

from typing import Annotated, Any

import orjson
import pytest
from annotated_types import Len
from pydantic import AfterValidator, Field

from inferstream.codecs.values.constraints import constrains, find_description
from inferstream.codecs.values.hints import value_for
from inferstream.errors import CodecError

POSITIVE = Annotated[int, Field(gt=0)]


def test_constraint_applies_to_every_input_and_output_format() -> None:
    value = value_for(POSITIVE)
    free = value_for(int)
    assert value.decode_input(free.encode_input("x", 3)) == value.from_json(3) == 3
    for wrong in (
        lambda: value.decode_input(free.encode_input("x", 0)),
        lambda: value.encode_output("y", 0),
    ):
        with pytest.raises(CodecError, match=r'"[xy]": input should be greater than 0'):
            wrong()
    for refused in (lambda: value.from_json(0), lambda: value.check(0)):
        with pytest.raises(ValueError, match="greater than 0"):
            refused()


def test_constrained_type_has_the_tensor_of_its_type_and_a_schema() -> None:
    declared = value_for(Annotated[list[int], Len(1, 2)]).tensor("x")
    assert (declared.datatype, declared.shape) == ("INT64", [-1])
    assert declared.parameters is not None
    schema = orjson.loads(declared.parameters.get("schema"))
    assert (schema["minItems"], schema["maxItems"]) == (1, 2)


def test_validator_may_change_an_input_value() -> None:
    value = value_for(Annotated[str, AfterValidator(str.upper)])
    assert value.from_json("a") == "A"


@pytest.mark.parametrize(
    ("hint", "rule", "description"),
    [
        (POSITIVE, True, None),
        (Annotated[int, Field(description="How many.")], False, "How many."),
        (Annotated[int, Field(gt=0, description="How many.")], True, "How many."),
        (Annotated[int, "How many."], False, "How many."),
        (int, False, None),
    ],
)
def test_description_is_not_a_constraint(hint: Any, rule: bool, description: str | None) -> None:
    assert (constrains(hint), find_description(hint)) == (rule, description)
