"""Events written from what the last one left are the bytes that writing each by itself gives."""

import numpy as np
import pytest

from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.errors import InvalidOutput
from inferstream.protos import sse
from inferstream.protos.json_events import EventWriter
from inferstream.protos.json_responses import IN_JSON
from inferstream.types import InferenceResponse, Parameters, ResponseOutput


def response(*outputs: ResponseOutput, **fields) -> InferenceResponse:
    return InferenceResponse(model_name=fields.pop("model_name", "m"), outputs=list(outputs), **fields)


def text(values: list, name: str = "token", **fields) -> ResponseOutput:
    return ResponseOutput(name=name, shape=[len(values)], datatype="BYTES", data=values, **fields)


CHANGES = {
    "values": [response(text(["a"])), response(text([b'"\n\xc3\xa9'])), response(text([""]))],
    "shape": [response(text(["a"])), response(text(["a", "b"])), response(text([])), response(text(["a"]))],
    "names": [response(text(["a"])), response(text(["a"], '"data":')), response(text(["a"]), model_name="n")],
    "ids and versions": [
        response(text(["a"]), id="1"),
        response(text(["a"]), id="2", model_version="1"),
        response(text(["a"])),
    ],
    "content types": [response(StringCodec.encode_output("token", ["a"])), response(text(["a"]))],
    "datatypes": [
        response(NumpyCodec.encode_output("y", np.array([[1.5, float("nan")]], np.float32))),
        response(NumpyCodec.encode_output("y", np.array([[1, 2]], np.int64))),
        response(text(["a"], "y")),
    ],
    "parameters": [
        response(text(["a"])),
        response(text(["a"], parameters=Parameters(score=0.5))),
        response(text(["a"], parameters=Parameters(score=0.7))),
        response(text(["a"]), parameters=Parameters(done=True)),
    ],
    "outputs": [response(text(["a"])), response(text(["a"]), text(["b"], "other")), response()],
    "text that is none": [response(text(["a"])), response(text([b"\xff"])), response(text(["b"]))],
}


@pytest.mark.parametrize("changed", CHANGES)
def test_event_does_not_depend_on_the_previous_one(changed: str) -> None:
    write = EventWriter()
    for item in CHANGES[changed] + CHANGES[changed][::-1]:
        assert write(item) == sse.event(item.accept(IN_JSON)[0])


def test_shape_changed_in_place_is_written_correctly() -> None:
    write = EventWriter()
    item = response(text(["a", "b"]))
    write(item)
    item.outputs[0].shape.append(1)
    assert b'"shape":[2,1]' in write(item)


def test_unwritable_values_are_refused() -> None:
    write = EventWriter()
    write(response(text(["a"])))
    with pytest.raises(InvalidOutput):
        write(response(text(["\ud800"])))
    assert write(response(text(["b"]))) == sse.event(response(text(["b"])).accept(IN_JSON)[0])
