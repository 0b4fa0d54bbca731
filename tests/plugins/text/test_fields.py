"""The fields of a body, and what is no body."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest
from inferstream.plugins.text.fields import DEEPEST, MAX_FIELDS, MAX_STOP_LENGTH, Fields


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b"", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"a": NaN}', "not valid JSON"),
        (b'{"a": 1, "a": 2}', '"a" is given twice'),
        (b'{"a":"x : y","a":2}', '"a" is given twice'),
        (b'{"l": [{"a": 1, "a": 2}]}', '"a" is given twice'),
        (b'{"o": {"p": {"a": 1, "a": 2}}}', '"a" is given twice'),
        (nested(DEEPEST + 1), "nested deeper"),
        (nested(900), "nested deeper"),
        (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", "nested deeper"),
        (nested(100_000), "JSON"),
    ],
)
def test_invalid_bodies(body: bytes, names: str) -> None:
    with pytest.raises(InvalidRequest, match=names):
        Fields.read(body)


def test_body_at_nesting_limit() -> None:
    assert Fields.read(nested(DEEPEST)).names() == ["a"]


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.text('a":, \\{[', max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text('a":', max_size=3), inner)),
    max_leaves=8,
)


@given(st.dictionaries(st.text('ab": ', max_size=3), json_values, max_size=4), st.booleans())
def test_any_object_is_a_body(document: dict, indented: bool) -> None:
    body = orjson.dumps(document, option=orjson.OPT_INDENT_2 if indented else None)
    assert Fields.read(body).names() == [name for name, value in document.items() if value is not None]


def test_stop_string_length_is_limited() -> None:
    assert Fields({"stop": "x" * MAX_STOP_LENGTH}).stop_strings() == ("x" * MAX_STOP_LENGTH,)
    with pytest.raises(InvalidRequest, match="stop"):
        Fields({"stop": ["a", "x" * (MAX_STOP_LENGTH + 1)]}).stop_strings()


@pytest.mark.parametrize("value", [1e300, 2**63, -(2**63) - 1, 1.5, "1", True])
def test_integer_fits_tensor(value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^number: must be"):
        Fields({"number": value}).integer("number")


def test_additional_fields_are_parameters_up_to_a_limit() -> None:
    fields = {f"field{number}": number for number in range(MAX_FIELDS + 1)}
    with pytest.raises(InvalidRequest, match=str(MAX_FIELDS)):
        Fields(fields).other_parameters(frozenset())
    assert len(Fields(fields).other_parameters(frozenset(("field0",)))) == MAX_FIELDS
