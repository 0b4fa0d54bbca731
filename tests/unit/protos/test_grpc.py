"""Messages and types convert into each other exactly, beside anybody else's protos."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.codecs import NumpyCodec
from inferstream.errors import InvalidOutput
from inferstream.protos import dataplane_pb2 as messages
from inferstream.protos.converters import ModelInferRequestConverter, ModelInferResponseConverter
from inferstream.protos.grpc import FIELDS
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
)
from inferstream.types.datatypes import DTYPES


@pytest.mark.parametrize("use_raw", [True, False])
@pytest.mark.parametrize("datatype", [*DTYPES, "BYTES"])
def test_requests_and_responses_round_trip(datatype: str, use_raw: bool) -> None:
    if datatype not in FIELDS:
        use_raw = True
    data = ["a", "é"] if datatype == "BYTES" else [True, False] if datatype == "BOOL" else [1, 2]
    parameters = Parameters(content_type="np", flag=True, count=3, big=2**63, ratio=0.5, text="x")
    request = InferenceRequest(
        id="i",
        parameters=parameters,
        inputs=[RequestInput(name="x", shape=[2], datatype=datatype, data=data, parameters=parameters)],
    )
    sent = ModelInferRequestConverter.from_types(request, "m", None, use_raw)
    back = ModelInferRequestConverter.to_types(
        messages.ModelInferRequest.FromString(sent.SerializeToString())
    )
    expected = [b"a", "é".encode()] if datatype == "BYTES" else data
    assert back.inputs[0].data.root == expected
    assert back.parameters == parameters
    assert back.inputs[0].parameters == parameters

    response = InferenceResponse(
        model_name="m", outputs=[ResponseOutput(name="x", shape=[2], datatype=datatype, data=data)]
    )
    answered = ModelInferResponseConverter.from_types(response, use_raw)
    assert ModelInferResponseConverter.to_types(answered).outputs[0].data.root == expected
    assert bool(answered.raw_output_contents) == use_raw


@pytest.mark.parametrize("changed", [{"name": "\ud800"}, {"name": 5}, {"shape": [2**64]}])
def test_unwritable_output_is_a_model_error(changed: dict) -> None:
    output = ResponseOutput(name="x", shape=[1], datatype="FP32", data=[1]).model_copy(update=changed)
    response = InferenceResponse.model_construct(model_name="m", outputs=[output])

    with pytest.raises(InvalidOutput):
        ModelInferResponseConverter.from_types(response)


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=20))
def test_raw_arrays_are_exact(values: list[float]) -> None:
    request = InferenceRequest(inputs=[NumpyCodec.encode_input("x", np.array(values, np.float32))])
    sent = ModelInferRequestConverter.from_types(request, "m", use_raw=True)
    assert (
        NumpyCodec.decode_input(ModelInferRequestConverter.to_types(sent).inputs[0]).reshape(-1).tolist()
        == values
    )
