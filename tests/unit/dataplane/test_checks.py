"""Which tensors pass, and which of a model's outputs reach the client."""

import pytest

from inferstream.dataplane.checks import Declaration, Strictness, finish
from inferstream.errors import InvalidRequest
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, RequestOutput, ResponseOutput


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


def declared(strictness: Strictness) -> Declaration:
    return Declaration([], [], strictness)


def texts(shape: list[int], data: object) -> InferenceRequest:
    return InferenceRequest(inputs=[RequestInput(name="x", shape=shape, datatype="BYTES", data=data)])


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ([5], ["hello"]),
        ([5], "hello"),
        ([1, 5], [b"hello"]),
        ([11], ["hello world 😁"]),
        ([2, 5], ["hello", "you"]),
        ([8, 8], "01" * 32),
    ],
)
def test_a_shape_may_count_the_characters_of_texts(shape: list[int], data: object) -> None:
    request = texts(shape, data)
    declared("lenient").check(request)
    assert request.inputs[0].shape == shape
    assert not declared("lenient").counts_rows(request.inputs[0])
    with pytest.raises(InvalidRequest):
        declared("strict").check(request)


@pytest.mark.parametrize(
    ("shape", "data"), [([2], ["a"]), ([3], ["a", "b"]), ([2, 9], ["a", "b"]), ([2], []), ([2], [None])]
)
def test_a_shape_that_nothing_fills_is_refused(shape: list[int], data: list) -> None:
    with pytest.raises(InvalidRequest, match="needs"):
        declared("lenient").check(texts(shape, data))


def test_an_answered_text_gets_the_shape_that_it_has() -> None:
    output = ResponseOutput(name="y", shape=[5], datatype="BYTES", data=[b"hello"])
    response = InferenceResponse(model_name="m", outputs=[output])
    assert finish(response, InferenceRequest(inputs=[]), "m", None).outputs[0].shape == [1]
