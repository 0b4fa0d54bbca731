"""Rules of single values and lists, whichever way the values come."""

from typing import Annotated, Any

import orjson
import pytest
from annotated_types import Len
from pydantic import AfterValidator, Field

from inferstream.codecs.values.constraints import constrains, description_of
from inferstream.codecs.values.hints import value_of
from inferstream.errors import CodecError

POSITIVE = Annotated[int, Field(gt=0)]


def test_a_rule_holds_for_each_way_in_and_out() -> None:
    value = value_of(POSITIVE)
    free = value_of(int)
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


def test_the_tensor_is_that_of_the_type_with_the_schema_of_the_rule() -> None:
    declared = value_of(Annotated[list[int], Len(1, 2)]).tensor("x")
    assert (declared.datatype, declared.shape) == ("INT64", [-1])
    assert declared.parameters is not None
    schema = orjson.loads(declared.parameters.get("schema"))
    assert (schema["minItems"], schema["maxItems"]) == (1, 2)


def test_a_validator_may_change_a_value_that_comes() -> None:
    value = value_of(Annotated[str, AfterValidator(str.upper)])
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
def test_a_description_alone_is_no_rule(hint: Any, rule: bool, description: str | None) -> None:
    assert (constrains(hint), description_of(hint)) == (rule, description)
