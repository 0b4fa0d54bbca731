"""Requests that hypothesis makes for a check."""

import base64
from datetime import datetime
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from inferstream.ext.values import DTYPES
from inferstream.plugins.tools.check.inputs import MAX_NUMBER, requests, summarize_requests
from inferstream.types import InferenceRequest, MetadataTensor

INPUTS = [
    MetadataTensor(name=datatype, datatype=datatype, shape=[-1, 2, -1])
    for datatype in ("BYTES", *(name for name in DTYPES if name != "BYTES"))
]


def _texts(content_type: str) -> list[MetadataTensor]:
    parameters: Any = {"content_type": content_type}
    return [MetadataTensor(name="x", datatype="BYTES", shape=[1], parameters=parameters)]


@given(requests(INPUTS, 2, 1))
def test_every_datatype_has_values_of_declared_shape(drawn: list[InferenceRequest]) -> None:
    shapes = {tuple(tensor.shape) for request in drawn for tensor in request.inputs}
    assert len(shapes) == 1
    ((rows, fixed, other),) = shapes
    assert (rows, fixed) == (1, 2)
    for tensor in (tensor for request in drawn for tensor in request.inputs):
        tensor.data.check(tensor.datatype, tensor.shape)
        assert len(tensor.data) == 2 * other
        assert tensor.datatype == "BYTES" or all(abs(value) <= MAX_NUMBER for value in tensor.data)


def test_variable_first_dimension_varies_unless_rows_are_set() -> None:
    rows = find(requests(INPUTS[:1], 1, None), lambda drawn: drawn[0].inputs[0].shape[0] == 3)
    assert summarize_requests(rows).startswith("BYTES=[")


@pytest.mark.parametrize(
    ("content_type", "read"), [("base64", base64.b64decode), ("datetime", datetime.fromisoformat)]
)
@given(data=st.data())
def test_string_values_follow_content_type(content_type: str, read: Any, data: st.DataObject) -> None:
    (request,) = data.draw(requests(_texts(content_type), 1, None))
    read(request.inputs[0].data[0])
    assert request.inputs[0].parameters.content_type == content_type


def test_small_integers_are_frequent() -> None:
    drawn: list[int] = []

    @settings(max_examples=50, database=None, derandomize=True)
    @given(requests([MetadataTensor(name="upto", datatype="INT64", shape=[1])], 1, None))
    def draw(made: list[InferenceRequest]) -> None:
        drawn.extend(made[0].inputs[0].data)

    draw()
    assert sum(1 <= value <= 4 for value in drawn) >= 5
    assert max(drawn) > 50
