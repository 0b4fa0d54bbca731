"""JSON between client and server: each reads what the other writes."""

import pytest

from inferstream.errors import InvalidRequest
from inferstream.protos.json_client import dump_request, load_response
from inferstream.protos.json_requests import build_request, load
from inferstream.protos.json_responses import IN_JSON, JsonWriter
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, RequestOutput, ResponseOutput


def request(values: list, datatype: str = "FP32", width: int = 1, **more: object) -> InferenceRequest:
    shape = [len(values) // width, width]
    return InferenceRequest(
        id=f"id {values}",
        inputs=[RequestInput(name="x", shape=shape, datatype=datatype, data=values, **more)],
    )


@pytest.mark.parametrize("datatype", ["FP32", "FP64", "INT8", "UINT64", "BOOL", "BYTES", "FP16", "BF16"])
@pytest.mark.parametrize("binary", [False, True])
def test_server_reads_client_requests(datatype: str, binary: bool) -> None:
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
def test_client_reads_server_responses(binary: bool) -> None:
    outputs = [
        ResponseOutput(name="a", shape=[2], datatype="INT32", data=[1, 2]),
        ResponseOutput(name="b", shape=[2], datatype="BYTES", data=["x", "yz"]),
    ]
    text, blobs = InferenceResponse(model_name="m", outputs=outputs).accept(JsonWriter((binary, {})))
    read = load_response(b"".join((text, *blobs)), str(len(text)) if binary else None)
    assert read.outputs[0].data.to_numpy("INT32").tolist() == [1, 2]
    assert read.accept(IN_JSON)[0] == InferenceResponse(model_name="m", outputs=outputs).accept(IN_JSON)[0]


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
def test_invalid_response_is_reported(body: bytes, length: str | None) -> None:
    with pytest.raises(InvalidRequest):
        load_response(body, length)
