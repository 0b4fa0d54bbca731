"""Which of a model's outputs reach the client, and what they are held against."""

import logging
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from inferstream.dataplane.checks import Strictness
from inferstream.dataplane.execution.payloads import Payloads
from inferstream.dataplane.outputs import choose_finish
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


def test_declared_output_may_have_trailing_ones(caplog: pytest.LogCaptureFixture) -> None:
    finish = choose_finish("m", None, False, DECLARED, "declared")
    for shape in ([2], [2, 1], [1, 2], [2]):
        assert finish(response(shape), REQUEST).outputs[0].shape == shape
    assert not caplog.records


def test_output_violating_its_declaration_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    finish = choose_finish("m", None, False, DECLARED, "declared")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            finish(response([2], "INT64"), REQUEST)
    [record] = caplog.records
    assert record.getMessage() == 'model m, output "y": it is declared as INT32 [-1], got INT64 [2]'


@pytest.mark.parametrize(("shape", "datatype"), [([2, 1], "INT32"), ([1, 2], "INT32"), ([2], "INT64")])
def test_strict_model_returns_only_declared_outputs(shape: list[int], datatype: str) -> None:
    finish = choose_finish("m", None, False, DECLARED, "strict")
    finish(response([2]), REQUEST)
    with pytest.raises(InvalidOutput, match='wrong output "y": it is declared as'):
        finish(response(shape, datatype), REQUEST)
    finish(response([1], data=[1]), REQUEST)


@pytest.mark.parametrize(
    ("shape", "data"), [([7], [1, 2]), ([2], [[1], [2]]), ([2], ["1", None]), ([], {"a": 1}), ([1], "text")]
)
def test_unchecked_output_is_sent_unchanged(shape: list[int], data: object) -> None:
    given = response(shape, data=data)
    found = choose_finish("m", None, None, DECLARED, "off")(given, REQUEST).outputs[0]
    assert (found.shape, found.data.root) == (shape, data)
    assert not found.data.checked


def test_unchecked_output_must_still_be_a_tensor() -> None:
    finish = choose_finish("m", None, None, [], "off")
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


@pytest.mark.parametrize("strictness", ["declared", "strict", "off"])
@pytest.mark.parametrize(
    ("shape", "data", "found"),
    [
        ([-1], [1, 2, 3], [3]),
        ([-1, 1], [1, 2, 3], [3, 1]),
        ([2, -1], [1, 2, 3, 4], [2, 2]),
        ([-1, 3], [[1, 2, 3], [4, 5, 6]], [2, 3]),
        ([-1, 2], np.arange(6, dtype="int32"), [3, 2]),
        ([-1], [], [0]),
    ],
)
def test_size_of_minus_one_is_computed_from_the_values(
    strictness: Strictness, shape: list[int], data: object, found: list[int]
) -> None:
    finish = choose_finish("m", None, False, (), strictness)
    assert finish(response(shape, data=data), REQUEST).outputs[0].shape == found
    texts = response([-1], "BYTES", ["a", "bc"])
    assert finish(texts, REQUEST).outputs[0].shape == [2]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([-1, 2], r"3 values do not fill shape \[-1, 2\]"),
        ([-1, 0], r"3 values do not fill shape \[-1, 0\]"),
        ([-1, -1], r"shape \[-1, -1\] holds something that is not a size"),
        ([-2], r"shape \[-2\] holds something that is not a size"),
        ([-1, 1.0], "not a size"),
        ([-1, "1"], "not a size"),
    ],
)
def test_shape_that_no_size_fits_is_refused(shape: list[int], message: str) -> None:
    given = response([3], data=[1, 2, 3])
    given.outputs[0].shape = shape
    with pytest.raises(InvalidOutput, match=message):
        choose_finish("m", None, False, (), "off")(given, REQUEST)


def test_outputs_with_one_name_are_all_returned_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    finish = choose_finish("m", None, False, (), "declared")
    outputs = [ResponseOutput(name=name, shape=[1], datatype="INT8", data=[1]) for name in "yxy"]
    for wanted, names in ((None, "yxy"), ("y", "yy"), ("xy", "xyy")):
        asked = [RequestOutput(name=name) for name in wanted or ()] or None
        given = InferenceResponse(model_name="m", outputs=outputs)
        found = finish(given, REQUEST.model_copy(update={"outputs": asked}))
        assert [tensor.name for tensor in found.outputs] == [*names]
    [record] = caplog.records
    assert record.getMessage() == 'model m returns more than one output named "y"'


def payloads(request: InferenceRequest) -> Payloads:
    return cast(Payloads, SimpleNamespace(current=request))


@pytest.mark.parametrize("item", ["a", response([2])])
def test_stream_items_have_only_requested_outputs(item: object) -> None:
    finish = choose_finish("m", None, None, (), "declared")
    asked = [RequestOutput(name="none such")]
    names = [tensor.name for tensor in finish.of(payloads(REQUEST))(item).outputs]
    wanted = REQUEST.model_copy(update={"outputs": [RequestOutput(name=names[0])]})
    assert [tensor.name for tensor in finish.of(payloads(wanted))(item).outputs] == names
    refusing = choose_finish("m", None, False, (), "declared")
    with pytest.raises(InvalidRequest, match="none such"):
        refusing.of(payloads(REQUEST.model_copy(update={"outputs": asked})))(item)
