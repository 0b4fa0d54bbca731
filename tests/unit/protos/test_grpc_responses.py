"""What is written without protobuf is what protobuf would have written."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.codecs import NumpyCodec
from inferstream.errors import InvalidOutput
from inferstream.protos.dataplane_pb2 import ModelInferResponse
from inferstream.protos.grpc import FIELDS
from inferstream.protos.grpc_responses import WRITERS, encode_varint
from inferstream.types import InferenceResponse, Parameters, ResponseOutput, TensorData
from inferstream.types.datatypes import DTYPES

WHOLE = {
    "INT8": 7,
    "INT16": 15,
    "INT32": 31,
    "INT64": 63,
    "UINT8": 8,
    "UINT16": 16,
    "UINT32": 32,
    "UINT64": 64,
}


def values_of(datatype: str) -> st.SearchStrategy[Any]:
    if datatype == "BYTES":
        return st.binary(max_size=300)
    if datatype == "BOOL":
        return st.booleans()
    if datatype in WHOLE:
        top = 2 ** WHOLE[datatype]
        return st.integers(-top if datatype.startswith("I") else 0, top - 1)
    return st.floats(width=64 if datatype == "FP64" else 16, allow_nan=False)


@st.composite
def outputs(draw: st.DrawFn) -> ResponseOutput:
    datatype = draw(st.sampled_from([*DTYPES, "BYTES"]))
    values = draw(st.lists(values_of(datatype), max_size=40))
    texts = st.text(st.characters(codec="utf-8"), max_size=8)
    extra = draw(st.dictionaries(texts, st.booleans() | st.integers(-9, 9) | texts, max_size=2))
    extra.pop("headers", None)
    content_type = draw(st.none() | texts)
    parameters = draw(st.sampled_from([None, Parameters.of(extra, content_type)]))
    return ResponseOutput(
        name=draw(texts), shape=[len(values), 1], datatype=datatype, data=values, parameters=parameters
    )


@given(st.lists(outputs(), max_size=3), st.booleans(), st.none() | st.text("ab", max_size=200))
def test_protobuf_writes_identical_bytes(tensors: list[ResponseOutput], typed: bool, id: str | None) -> None:
    response = InferenceResponse(
        model_name="m", model_version="1", id=id, parameters=Parameters(flag=True), outputs=tensors
    )
    typed = typed and all(tensor.datatype in FIELDS for tensor in tensors)

    expected = ModelInferResponse(model_name="m", model_version="1", id=id or "")
    expected.parameters["flag"].bool_param = True
    for tensor in tensors:
        output = expected.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        for name, value in tensor.parameters.items() if tensor.parameters else ():
            field = {bool: "bool_param", int: "int64_param", str: "string_param"}[type(value)]
            setattr(output.parameters[name], field, value)
        if typed:
            getattr(output.contents, FIELDS[tensor.datatype]).extend(tensor.data.flat())
        else:
            expected.raw_output_contents.append(bytes(tensor.data.to_raw(tensor.datatype)))

    assert ModelInferResponse.FromString(response.accept(WRITERS[typed])) == expected


@pytest.mark.parametrize(
    ("size", "written"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (2**21, b"\x80\x80\x80\x01")]
)
def test_lengths_are_varints(size: int, written: bytes) -> None:
    assert encode_varint(size) == written


@pytest.mark.parametrize("typed", [True, False])
def test_model_may_reuse_its_array(typed: bool) -> None:
    array = np.zeros(100_000, np.float32)
    response = InferenceResponse(model_name="m", outputs=[NumpyCodec.encode_output("y", array)])
    written = response.accept(WRITERS[typed])
    array[:] = 1
    zeros = InferenceResponse(model_name="m", outputs=[NumpyCodec.encode_output("y", np.zeros_like(array))])
    assert written == zeros.accept(WRITERS[typed])


@pytest.mark.parametrize("typed", [True, False])
def test_unwritable_output_is_named(typed: bool) -> None:
    wrong = ResponseOutput.of(name="y", shape=[1], datatype="INT8", data=TensorData([0.5]))
    with pytest.raises(InvalidOutput, match='Output "y" cannot be written'):
        InferenceResponse(model_name="m", outputs=[wrong]).accept(WRITERS[typed])
