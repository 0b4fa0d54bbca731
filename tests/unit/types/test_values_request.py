"""A request of single values is to everybody else what it stands for."""

import pytest

from inferstream.types import Headers, InferenceRequest, RequestInput
from inferstream.types.values_request import InputsForm, ValuesRequest, whole_request

FORM = InputsForm({"a": "INT64", "b": "FP64", "c": "BYTES", "d": "BOOL"}, optional=["d"])
VALUES = {"a": 1, "b": 0.5, "c": "x"}


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        {**VALUES, "d": True},
        {**VALUES, "a": -(2**63)},
        {**VALUES, "a": 2**63 - 1},
    ],
)
def test_values_of_the_right_types_fit(values) -> None:
    assert FORM.fits(values)


@pytest.mark.parametrize(
    "values",
    [
        {"a": 1, "b": 0.5},
        {**VALUES, "e": 1},
        {**VALUES, "a": True},
        {**VALUES, "a": 1.0},
        {**VALUES, "a": 2**63},
        {**VALUES, "a": None},
        {**VALUES, "b": 1},
        {**VALUES, "c": b"x"},
        {**VALUES, "d": 1},
        {"a": 1, "b": 0.5, "d": True},
    ],
)
def test_missing_unknown_and_other_values_do_not_fit(values) -> None:
    assert not FORM.fits(values)


def test_tensors_are_made_once_and_are_those_of_a_plain_request() -> None:
    request = ValuesRequest(FORM, VALUES, "7")
    assert request.inputs is request.inputs
    assert request.inputs == [
        RequestInput(name="a", shape=[1], datatype="INT64", data=[1]),
        RequestInput(name="b", shape=[1], datatype="FP64", data=[0.5]),
        RequestInput(name="c", shape=[1], datatype="BYTES", data=["x"]),
    ]
    assert request.outputs is None


def test_code_of_users_gets_a_plain_request_with_the_headers() -> None:
    request = ValuesRequest(FORM, VALUES, "7")
    request.headers = Headers([(b"x-key", b"v")])
    found = whole_request(request)
    assert type(found) is InferenceRequest
    assert found.parameters is request.parameters
    assert found.parameters.headers["x-key"] == "v"
    assert [tensor["name"] for tensor in found.model_dump()["inputs"]] == ["a", "b", "c"]
    assert whole_request(found) is found
