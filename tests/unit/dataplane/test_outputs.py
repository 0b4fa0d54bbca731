"""Which of a model's outputs reach the client, and what they are held against."""

import logging
from types import SimpleNamespace
from typing import cast

import pytest

from inferstream.dataplane.execution.payloads import Payloads
from inferstream.dataplane.outputs import finish_of
from inferstream.errors import InvalidOutput, InvalidRequest
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)

REQUEST = InferenceRequest(inputs=[RequestInput(name="x", shape=[1], datatype="INT8", data=[1])])
DECLARED = [MetadataTensor(name="y", datatype="INT32", shape=[-1])]


def response(shape: list[int], datatype: str = "INT32", data: object = (1, 2)) -> InferenceResponse:
    output = ResponseOutput(name="y", shape=shape, datatype=datatype, data=data)
    return InferenceResponse(model_name="m", outputs=[output])


def test_a_declared_output_may_have_trailing_ones(caplog: pytest.LogCaptureFixture) -> None:
    finish = finish_of("m", None, False, DECLARED, "declared")
    for shape in ([2], [2, 1], [1, 2], [2]):
        assert finish(response(shape), REQUEST).outputs[0].shape == shape
    assert not caplog.records


def test_an_output_that_breaks_its_declaration_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    finish = finish_of("m", None, False, DECLARED, "declared")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            finish(response([2], "INT64"), REQUEST)
    [record] = caplog.records
    assert record.getMessage() == 'model m, output "y": it is declared as INT32 [-1], got INT64 [2]'


@pytest.mark.parametrize(("shape", "datatype"), [([2, 1], "INT32"), ([1, 2], "INT32"), ([2], "INT64")])
def test_a_strict_model_answers_what_it_declares(shape: list[int], datatype: str) -> None:
    finish = finish_of("m", None, False, DECLARED, "strict")
    finish(response([2]), REQUEST)
    with pytest.raises(InvalidOutput, match='wrong output "y": it is declared as'):
        finish(response(shape, datatype), REQUEST)
    finish(response([1], data=[1]), REQUEST)


@pytest.mark.parametrize(
    ("shape", "data"), [([7], [1, 2]), ([2], [[1], [2]]), ([2], ["1", None]), ([], {"a": 1}), ([1], "text")]
)
def test_an_unchecked_output_goes_out_as_it_is(shape: list[int], data: object) -> None:
    given = response(shape, data=data)
    found = finish_of("m", None, None, DECLARED, "off")(given, REQUEST).outputs[0]
    assert (found.shape, found.data.root) == (shape, data)
    assert not found.data.checked


def test_an_unchecked_output_is_a_tensor_all_the_same() -> None:
    finish = finish_of("m", None, None, [], "off")
    deep: list = []
    for _ in range(40):
        deep = [deep]
    with pytest.raises(InvalidOutput, match="nested deeper"):
        finish(response([1], data=deep), REQUEST)
    for broken in (["x"], [None]):
        with pytest.raises(InvalidOutput, match="answered an output that is a"):
            finish(InferenceResponse.of(model_name="m", outputs=broken), REQUEST)
    odd = response([1])
    odd.outputs[0].datatype = "FLOAT"
    with pytest.raises(InvalidOutput, match="of unknown datatype 'FLOAT'; known are BOOL, UINT8, "):
        finish(odd, REQUEST)
    odd = response([1])
    odd.outputs[0].shape = [1.5]  # type: ignore[list-item]  # as model code may
    with pytest.raises(InvalidOutput, match="not a size"):
        finish(odd, REQUEST)


def payloads(request: InferenceRequest) -> Payloads:
    return cast(Payloads, SimpleNamespace(current=request))


@pytest.mark.parametrize("item", ["a", response([2])])
def test_items_of_a_stream_have_the_outputs_that_were_asked_for(item: object) -> None:
    finish = finish_of("m", None, None, (), "declared")
    asked = [RequestOutput(name="none such")]
    names = [tensor.name for tensor in finish.of(payloads(REQUEST))(item).outputs]
    wanted = REQUEST.model_copy(update={"outputs": [RequestOutput(name=names[0])]})
    assert [tensor.name for tensor in finish.of(payloads(wanted))(item).outputs] == names
    refusing = finish_of("m", None, False, (), "declared")
    with pytest.raises(InvalidRequest, match="none such"):
        refusing.of(payloads(REQUEST.model_copy(update={"outputs": asked})))(item)
