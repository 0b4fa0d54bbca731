"""What a client sends, reads, merges, and asks for again."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.clients.failures import seconds_of
from inferstream.clients.merging import groups, merged, split
from inferstream.clients.retries import LONGEST_PAUSE, pause_after, retried
from inferstream.errors import CallFailed, InvalidRequest
from inferstream.protos.json_client import dump_request, load_response
from inferstream.protos.json_requests import build_request, load
from inferstream.protos.json_responses import dump_response
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, RequestOutput, ResponseOutput


def request(values: list, datatype: str = "FP32", width: int = 1, **more: object) -> InferenceRequest:
    shape = [len(values) // width, width]
    return InferenceRequest(
        id=f"id {values}",
        inputs=[RequestInput(name="x", shape=shape, datatype=datatype, data=values, **more)],
    )


@pytest.mark.parametrize("datatype", ["FP32", "FP64", "INT8", "UINT64", "BOOL", "BYTES", "FP16", "BF16"])
@pytest.mark.parametrize("binary", [False, True])
def test_the_server_reads_what_the_client_writes(datatype: str, binary: bool) -> None:
    values = {"BYTES": ["a", "ü"], "BOOL": [True, False]}.get(datatype, [1, 2])
    sent = request(values, datatype, parameters={"p": 1})
    sent.outputs = [RequestOutput(name="y")]
    body, blobs = dump_request(sent, binary)
    tail = memoryview(b"".join(blobs)) if binary else None
    read, wish = build_request(load(body), body, tail)
    assert read.inputs[0].data.to_raw(datatype) == sent.inputs[0].data.to_raw(datatype)
    assert (read.id, read.inputs[0].shape, read.inputs[0].parameters.get("p")) == (sent.id, [2, 1], 1)
    assert (wish is not None and wish[0]) == binary
    assert [output.name for output in read.outputs] == ["y"]


@pytest.mark.parametrize("binary", [False, True])
def test_the_client_reads_what_the_server_writes(binary: bool) -> None:
    outputs = [
        ResponseOutput(name="a", shape=[2], datatype="INT32", data=[1, 2]),
        ResponseOutput(name="b", shape=[2], datatype="BYTES", data=["x", "yz"]),
    ]
    text, blobs = dump_response(InferenceResponse(model_name="m", outputs=outputs), (binary, {}))
    read = load_response(b"".join((text, *blobs)), str(len(text)) if binary else None)
    assert read.outputs[0].data.to_numpy("INT32").tolist() == [1, 2]
    assert dump_response(read)[0] == dump_response(InferenceResponse(model_name="m", outputs=outputs))[0]


@pytest.mark.parametrize(
    ("body", "length"),
    [
        (b"<html>", None),
        (b"[]", None),
        (b'{"outputs": 1}', None),
        (b"{}", "99"),
        (b"{}", "x"),
        (
            b'{"model_name":"m","outputs":[{"name":"a","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":9}}]}',
            None,
        ),
    ],
)
def test_what_is_no_response_is_said_so(body: bytes, length: str | None) -> None:
    with pytest.raises(InvalidRequest):
        load_response(body, length)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.sampled_from(["INT64", "FP32", "BYTES"]))
def test_what_is_merged_splits_into_the_same(rows: list[int], datatype: str) -> None:
    convert = str if datatype == "BYTES" else int
    requests = [request([convert(i) for i in range(n * 2)], datatype, 2) for n in rows]
    assert groups(requests) == [list(range(len(rows)))]
    whole = merged(requests).inputs[0]
    assert whole.shape == [sum(rows), 2]
    output = ResponseOutput(name="y", shape=whole.shape, datatype=datatype, data=whole.data)
    parts = split(InferenceResponse(model_name="m", outputs=[output]), requests)
    for sent, part in zip(requests, parts, strict=True):
        assert part.id == sent.id
        assert part.outputs[0].shape == sent.inputs[0].shape
        assert part.outputs[0].data.flat() == sent.inputs[0].data.flat()


def test_what_differs_is_not_merged() -> None:
    alike = [request([1.0]), request([2.0])]
    other = [request([1], "INT64"), request([1.0, 2.0], width=2), request([1.0], parameters={"p": 1})]
    scalar = InferenceRequest(inputs=[RequestInput(name="x", shape=[], datatype="FP32", data=[1.0])])
    named = request([1.0])
    named.outputs = [RequestOutput(name="y")]
    assert groups([*alike, *other, scalar, scalar, named]) == [[0, 1], [2], [3], [4], [5], [6], [7]]


def test_an_answer_with_other_rows_is_not_split() -> None:
    output = ResponseOutput(name="y", shape=[3], datatype="FP32", data=np.zeros(3, np.float32))
    with pytest.raises(CallFailed, match="2 rows"):
        split(InferenceResponse(model_name="m", outputs=[output]), [request([1.0]), request([2.0])])


def test_a_pause_grows_and_is_never_shorter_than_asked() -> None:
    assert 0.125 <= pause_after(0, None) <= 0.25
    assert pause_after(10_000, None) <= LONGEST_PAUSE
    assert pause_after(0, 7.0) == 7.0
    assert seconds_of("3") == 3.0
    later = seconds_of(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True))
    assert later is not None
    assert 25 < later <= 30
    assert seconds_of("soon") is None
    assert seconds_of(None) is None


@pytest.mark.parametrize(("retryable", "calls"), [(True, 3), (False, 1)])
async def test_only_what_may_help_is_tried_again(retryable: bool, calls: int) -> None:
    made = 0

    async def call() -> None:
        nonlocal made
        made += 1
        raise CallFailed("no", retryable=retryable)

    with pytest.raises(CallFailed):
        await retried(call, 2)
    assert made == calls
