"""A request or a response of single values is to everybody else one of tensors."""

import copy
import pickle

import pytest

from inferstream.types import (
    Headers,
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
)
from inferstream.types.forms import InputsForm, OutputForm
from inferstream.types.inference import respond

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
def test_values_of_the_right_types_match(values) -> None:
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
def test_missing_unknown_and_mistyped_values_do_not_match(values) -> None:
    assert not FORM.fits(values)


def test_tensors_are_built_once_and_match_a_plain_request() -> None:
    request = InferenceRequest.of_values(FORM, VALUES, "7")
    assert request.inputs is request.inputs
    assert request.inputs == [
        RequestInput(name="a", shape=[1], datatype="INT64", data=[1]),
        RequestInput(name="b", shape=[1], datatype="FP64", data=[0.5]),
        RequestInput(name="c", shape=[1], datatype="BYTES", data=["x"]),
    ]
    assert request.outputs is request.form is None


def test_value_request_has_the_headers() -> None:
    request = InferenceRequest.of_values(FORM, VALUES, "7")
    assert request.carry(Headers([(b"x-key", b"v")])) is None
    assert request.parameters is request.parameters
    assert request.parameters.headers["x-key"] == "v"
    assert request.form is FORM
    dumped = request.model_dump()
    assert dumped.keys() == {"id", "inputs"}
    assert [tensor["name"] for tensor in dumped["inputs"]] == ["a", "b", "c"]


OUTPUT = OutputForm("m", "1", "output", "BYTES", (1,), base64=True)
TENSORS = InferenceResponse(
    model_name="m",
    model_version="1",
    id="7",
    outputs=[ResponseOutput(name="output", shape=[1], datatype="BYTES", data=[b"a"])],
)


@pytest.mark.parametrize(
    "made",
    [
        lambda response: response,
        copy.copy,
        copy.deepcopy,
        lambda response: response.model_copy(deep=True),
        lambda response: pickle.loads(pickle.dumps(response)),  # its own bytes
        InferenceResponse.model_validate,
    ],
)
def test_value_response_equals_its_tensor_response(made) -> None:
    response = made(respond(OUTPUT, b"a", "7"))
    assert response.form is not None
    assert (response.model_name, response.model_version, response.parameters) == ("m", "1", None)
    assert response.form is not None
    assert response == TENSORS
    assert response.form is None
    assert response.outputs is response.outputs
    assert response.outputs[0].data.binary
    assert response.model_dump() == TENSORS.model_dump()
    assert repr(response) == repr(TENSORS)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_name", "n"),
        ("model_version", "2"),
        ("parameters", Parameters(a=1)),
        ("outputs", []),
    ],
)
def test_changing_a_value_response_changes_its_serialization(field: str, value: object) -> None:
    response = respond(OUTPUT, b"a", "7")
    setattr(response, field, value)
    assert response.form is None
    assert response == TENSORS.model_copy(update={field: value})
