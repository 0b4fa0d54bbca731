import pytest

from inferstream.errors import InvalidRequest
from inferstream.text.fields import LONGEST_STOP, MOST_FIELDS, Fields


@pytest.mark.parametrize("stop", ["", ["a", ""], ["a", 1], {"a": 1}, ["a"] * 5, "a" * (LONGEST_STOP + 1)])
def test_wrong_stop_strings_are_refused_by_name(stop):
    with pytest.raises(InvalidRequest, match=r"^request\.stop: "):
        Fields({"stop": stop}, "request").stop()


def test_stop_strings_are_one_or_several():
    assert Fields({}).stop() == ()
    assert Fields({"stop": "a"}).stop() == ("a",)
    assert Fields({"stop": ["a" * LONGEST_STOP, "b"]}).stop() == ("a" * LONGEST_STOP, "b")


@pytest.mark.parametrize("value", [1e300, 2**63, -(2**63) - 1, 1.5, "1", True])
def test_a_whole_number_fits_a_tensor(value):
    with pytest.raises(InvalidRequest, match=r"^number: must be"):
        Fields({"number": value}).integer("number")


@pytest.mark.parametrize("value", [10**400, float("nan"), "1", True])
def test_a_number_is_finite(value):
    with pytest.raises(InvalidRequest, match=r"^number: must be"):
        Fields({"number": value}).number("number", 0, 2)


def test_further_fields_are_parameters_up_to_a_limit():
    fields = {f"field{number}": number for number in range(MOST_FIELDS + 1)}
    with pytest.raises(InvalidRequest, match=str(MOST_FIELDS)):
        Fields(fields).scalars(frozenset())
    assert len(Fields(fields).scalars(frozenset(("field0",)))) == MOST_FIELDS
