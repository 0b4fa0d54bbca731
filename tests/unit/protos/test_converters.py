"""Converters between the protocol's types and gRPC messages keep what both have."""

import pytest

from inferstream.protos import converters
from inferstream.protos import dataplane_pb2 as pb
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    MetadataTensor,
)

TENSOR = {
    "name": "x",
    "shape": [2],
    "datatype": "INT64",
    "data": [1, 2],
    "parameters": {"content_type": "np"},
}


def test_descriptions_round_trip() -> None:
    tensor = MetadataTensor(name="x", datatype="FP32", shape=[-1, 2], parameters={"content_type": "np"})
    model = MetadataModelResponse(name="m", platform="p", versions=["1"], inputs=[tensor], outputs=[tensor])
    message = converters.ModelMetadataResponseConverter.from_types(model)
    assert isinstance(message, pb.ModelMetadataResponse)
    returned = converters.ModelMetadataResponseConverter.to_types(message)
    assert (returned.name, returned.versions, returned.inputs, returned.outputs) == (
        "m",
        ["1"],
        [tensor],
        [tensor],
    )


@pytest.mark.parametrize("use_raw", [False, True])
def test_request_and_response_round_trip_in_both_forms(use_raw: bool) -> None:
    request = InferenceRequest(id="i", inputs=[TENSOR], parameters={"n": 3})
    message = converters.ModelInferRequestConverter.from_types(request, "m", "2", use_raw=use_raw)
    assert (message.model_name, message.model_version, bool(message.raw_input_contents)) == (
        "m",
        "2",
        use_raw,
    )
    returned = converters.ModelInferRequestConverter.to_types(message)
    assert (returned.id, list(returned.inputs[0].data.flat())) == ("i", [1, 2])
    assert returned.parameters is not None
    assert returned.parameters.get("n") == 3
    response = InferenceResponse(id="i", model_name="m", model_version="2", outputs=[TENSOR])
    answered = converters.ModelInferResponseConverter.from_types(response, use_raw=use_raw)
    assert bool(answered.raw_output_contents) is use_raw
    back = converters.ModelInferResponseConverter.to_types(answered)
    assert (back.id, back.model_version, list(back.outputs[0].data.flat())) == ("i", "2", [1, 2])
