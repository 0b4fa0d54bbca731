"""Which of a model's outputs reach the client."""

import pytest

from inferstream.dataplane.checks import finish
from inferstream.errors import InvalidRequest
from inferstream.types import InferenceRequest, InferenceResponse, RequestOutput, ResponseOutput


def answered(selects: bool | None, *wanted: str) -> list[str]:
    """The names that are left when a model which answered `a` and `b` was asked for `wanted`."""
    outputs = [ResponseOutput(name=name, shape=[1], datatype="INT32", data=[1]) for name in ("a", "b")]
    request = InferenceRequest(inputs=[], outputs=[RequestOutput(name=name) for name in wanted])
    response = InferenceResponse(model_name="m", outputs=outputs)
    return [output.name for output in finish(response, request, "m", None, selects).outputs]


@pytest.mark.parametrize("selects", [False, None])
def test_what_was_asked_for_is_picked_out_in_its_order(selects: bool | None) -> None:
    assert answered(selects, "b") == ["b"]
    assert answered(selects, "b", "a") == ["b", "a"]


def test_an_output_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="'c' is not one of the model's outputs: a, b"):
        answered(False, "a", "c")


def test_a_model_that_may_select_is_believed() -> None:
    assert answered(None, "a", "c") == ["a", "b"]


def test_a_model_that_selects_is_believed() -> None:
    assert answered(True, "a") == ["a", "b"]
