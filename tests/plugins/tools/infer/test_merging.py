"""Requests that are merged, and the responses that their response is split into."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import CallFailed
from inferstream.plugins.tools.infer.merging import group_requests, merge_requests, split_response
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, RequestOutput, ResponseOutput


def request(values: list, datatype: str = "FP32", width: int = 1, **more: object) -> InferenceRequest:
    shape = [len(values) // width, width]
    return InferenceRequest(
        id=f"id {values}",
        inputs=[RequestInput(name="x", shape=shape, datatype=datatype, data=values, **more)],
    )


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.sampled_from(["INT64", "FP32", "BYTES"]))
def test_merged_requests_split_back_equal(rows: list[int], datatype: str) -> None:
    convert = str if datatype == "BYTES" else int
    requests = [request([convert(i) for i in range(n * 2)], datatype, 2) for n in rows]
    assert group_requests(requests) == [list(range(len(rows)))]
    whole = merge_requests(requests).inputs[0]
    assert whole.shape == [sum(rows), 2]
    output = ResponseOutput(name="y", shape=whole.shape, datatype=datatype, data=whole.data)
    parts = split_response(InferenceResponse(model_name="m", outputs=[output]), requests)
    for sent, part in zip(requests, parts, strict=True):
        assert part.id == sent.id
        assert part.outputs[0].shape == sent.inputs[0].shape
        assert part.outputs[0].data.flat() == sent.inputs[0].data.flat()


def test_different_requests_are_not_merged() -> None:
    alike = [request([1.0]), request([2.0])]
    other = [request([1], "INT64"), request([1.0, 2.0], width=2), request([1.0], parameters={"p": 1})]
    scalar = InferenceRequest(inputs=[RequestInput(name="x", shape=[], datatype="FP32", data=[1.0])])
    named = request([1.0])
    named.outputs = [RequestOutput(name="y")]
    assert group_requests([*alike, *other, scalar, scalar, named]) == [[0, 1], [2], [3], [4], [5], [6], [7]]


def test_response_with_other_row_count_is_not_split() -> None:
    output = ResponseOutput(name="y", shape=[3], datatype="FP32", data=np.zeros(3, np.float32))
    with pytest.raises(CallFailed, match="2 rows"):
        split_response(InferenceResponse(model_name="m", outputs=[output]), [request([1.0]), request([2.0])])
