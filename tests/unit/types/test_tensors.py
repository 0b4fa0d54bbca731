"""Tensors of requests and responses."""

import pydantic
import pytest

from inferstream.types import (
    InferenceRequest,
    Parameters,
    RequestInput,
    ResponseOutput,
)


def test_unknown_datatype_is_refused_with_known_ones() -> None:
    with pytest.raises(pydantic.ValidationError, match="BF16"):
        ResponseOutput(name="x", shape=[1], datatype="FP31", data=[1])


@pytest.mark.parametrize("kind", [RequestInput, ResponseOutput])
def test_tensor_data_can_be_assigned(kind: type) -> None:
    tensor = kind(name="y", shape=[1], datatype="INT64", data=[1])
    tensor.data = [2]
    assert tensor.data.to_numpy("INT64").tolist() == [2]
    tensor.data.root = [3]
    assert tensor.data.to_numpy("INT64").tolist() == [3]
    assert tensor.model_dump()["data"] == [3]


def test_manually_built_request_has_parameters_and_dumps_none() -> None:
    request = InferenceRequest(inputs=[])
    assert request.parameters.content_type is None
    assert request.parameters.headers.get("x") is None
    assert request.model_dump() == {"inputs": []}
    assert request.model_dump_json() == '{"inputs":[]}'
    assert request.dict() == {"id": None, "parameters": None, "inputs": [], "outputs": None}
    request.parameters.content_type = "np"
    assert request.model_dump() == {"parameters": {"content_type": "np"}, "inputs": []}
    given = InferenceRequest(inputs=[], parameters=Parameters(a=1))
    assert given.model_dump()["parameters"] == {"a": 1}
