"""MLServer's converters make of types and messages what MLServer 1.7.1 makes of them, byte by byte."""

import grpc
import pytest

from inferstream import compat
from inferstream.protos import converters as ours
from tests.serving import tensor

compat.install()

from mlserver.grpc import converters  # type: ignore[import-not-found]
from mlserver.grpc import dataplane_pb2 as pb
from mlserver.grpc.dataplane_pb2_grpc import GRPCInferenceServiceServicer  # type: ignore[import-not-found]
from mlserver.grpc.model_repository_pb2_grpc import (  # type: ignore[import-not-found]
    ModelRepositoryServiceServicer,
)
from mlserver.types import (  # type: ignore[import-not-found]
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
)

RAW = {
    ("FP32", (1.0, 2.0)): b"\n\x01m*\x0e\n\x01y\x12\x04FP32\x1a\x01\x02*\x00%s\x08\x00\x00\x80?\x00\x00\x00@",
    ("BYTES", (b"a",)): b"\n\x01m*\x0f\n\x01y\x12\x05BYTES\x1a\x01\x01*\x00%s\x05\x01\x00\x00\x00a",
    ("FP16", (1.0, 2.0)): b"\n\x01m*\x0e\n\x01y\x12\x04FP16\x1a\x01\x02*\x00%s\x04\x00<\x00@",
    ("FP32", ()): b"\n\x01m*\x0e\n\x01y\x12\x04FP32\x1a\x01\x00*\x00%s\x00",
}
"""What MLServer sends of a tensor; `%s` is the key of the raw contents, which differs between the messages."""


@pytest.mark.parametrize(("datatype", "values"), RAW)
def test_raw_tensors_have_empty_contents(datatype: str, values: tuple[object, ...]) -> None:
    fields = tensor("y", datatype, list(values), shape=[len(values)])
    request = converters.ModelInferRequestConverter.from_types(
        InferenceRequest(inputs=[RequestInput(**fields)]), model_name="m", use_raw=True
    )
    response = converters.ModelInferResponseConverter.from_types(
        InferenceResponse(model_name="m", outputs=[ResponseOutput(**fields)]), use_raw=True
    )
    expected = RAW[datatype, values]
    assert request == pb.ModelInferRequest.FromString(expected % b":")
    assert response == pb.ModelInferResponse.FromString(expected % b"2")
    for converter, kind in (
        (converters.InferInputTensorConverter, RequestInput),
        (converters.InferOutputTensorConverter, ResponseOutput),
    ):
        empty = converter.from_types(kind(**{**fields, "data": []}))
        assert empty.HasField("contents")
        assert not empty.contents.ListFields()


def test_our_own_raw_tensors_have_none_because_triton_and_kserve_refuse_both() -> None:
    request = InferenceRequest(inputs=[RequestInput(**tensor("x", "FP32", [1.0]))])
    message = ours.ModelInferRequestConverter.from_types(request, "m", use_raw=True)
    assert not message.inputs[0].HasField("contents")


def test_what_a_message_lacks_is_none() -> None:
    assert converters.ParametersConverter.to_types({}) is None
    metadata = converters.ModelMetadataResponseConverter.to_types(
        pb.ModelMetadataResponse(name="m", platform="p")
    )
    assert (metadata.inputs, metadata.outputs, metadata.parameters) == (None, None, None)


def test_a_models_metadata_keep_their_parameters() -> None:
    metadata = MetadataModelResponse(name="m", platform="p", versions=["1"], parameters=Parameters(a="b"))
    message = converters.ModelMetadataResponseConverter.from_types(metadata)
    assert message.SerializeToString() == b"\n\x01m\x12\x011\x1a\x01p2\x08\n\x01a\x12\x03\x1a\x01b"
    assert converters.ModelMetadataResponseConverter.to_types(message) == metadata


class Context:
    """What a servicer tells gRPC."""

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details


@pytest.mark.parametrize("base", [GRPCInferenceServiceServicer, ModelRepositoryServiceServicer])
def test_what_a_servicer_does_not_override_is_unimplemented(base: type) -> None:
    class Own(base):  # type: ignore[misc]
        def RepositoryIndex(self, request: object, context: Context) -> object:
            return super().RepositoryIndex(request, context)

    for name in ("RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"):
        context = Context()
        with pytest.raises(NotImplementedError):
            getattr(Own(), name)(None, context=context)
        assert (context.code, context.details) == (
            grpc.StatusCode.UNIMPLEMENTED,
            "Method not implemented!",
        )
