"""Converters of gRPC messages, with MLServer's form of tensors."""

import grpc
import pytest

from inferstream.ext.hosting import install_aliases
from inferstream.ext.rpc import ModelInferRequestConverter as OurConverter
from tests.serving import tensor

install_aliases()


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
    MetadataServerResponse,
    MetadataTensor,
    Parameters,
    RepositoryIndexRequest,
    RepositoryIndexResponse,
    RepositoryIndexResponseItem,
    RequestInput,
    ResponseOutput,
)

install_aliases()


from mlserver.types import (  # type: ignore[import-not-found]
    RequestOutput,
)

install_aliases()

from mlserver.grpc.converters import (  # type: ignore[import-not-found]
    InferTensorContentsConverter,
    ModelInferRequestConverter,
)
from mlserver.types import (  # type: ignore[import-not-found]
    Datatype,
    TensorData,
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


def test_own_raw_tensors_have_no_contents() -> None:
    request = InferenceRequest(inputs=[RequestInput(**tensor("x", "FP32", [1.0]))])
    message = OurConverter.from_types(request, "m", use_raw=True)
    assert not message.inputs[0].HasField("contents")


def test_missing_message_fields_are_none() -> None:
    assert converters.ParametersConverter.to_types({}) is None
    metadata = converters.ModelMetadataResponseConverter.to_types(
        pb.ModelMetadataResponse(name="m", platform="p")
    )
    assert (metadata.inputs, metadata.outputs, metadata.parameters) == (None, None, None)


def test_descriptions_round_trip() -> None:
    server = MetadataServerResponse(name="s", version="1", extensions=["a", "b"])
    tensor = MetadataTensor(name="x", datatype="FP32", shape=[-1, 2], parameters={"content_type": "np"})
    model = MetadataModelResponse(name="m", platform="p", versions=["1"], inputs=[tensor], outputs=[tensor])
    index = RepositoryIndexResponse(
        [RepositoryIndexResponseItem(name="m", version="1", state="READY", reason="")]
    )
    for value, both, message in (
        (server, converters.ServerMetadataResponseConverter, pb.ServerMetadataResponse),
        (model, converters.ModelMetadataResponseConverter, pb.ModelMetadataResponse),
        (
            RepositoryIndexRequest(ready=True),
            converters.RepositoryIndexRequestConverter,
            pb.RepositoryIndexRequest,
        ),
        (index, converters.RepositoryIndexResponseConverter, pb.RepositoryIndexResponse),
    ):
        written = both.from_types(value)
        assert isinstance(written, message)
        assert both.to_types(written) == value


def test_model_metadata_keeps_parameters() -> None:
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
def test_unimplemented_servicer_methods_are_unimplemented(base: type) -> None:
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


def test_tensors_round_trip_through_messages() -> None:
    from mlserver.grpc import converters
    from mlserver.grpc.dataplane_pb2 import ModelInferRequest, ModelInferResponse

    given = RequestInput(**tensor("x", "FP32", [1, 2], parameters={"content_type": "np"}))
    assert (
        converters.InferInputTensorConverter.to_types(converters.InferInputTensorConverter.from_types(given))
        == given
    )
    answered = ResponseOutput(**tensor("y", "BYTES", [b"a"]))
    assert (
        converters.InferOutputTensorConverter.to_types(
            converters.InferOutputTensorConverter.from_types(answered)
        )
        == answered
    )
    wanted = RequestOutput(name="y", parameters=Parameters(content_type="str"))
    assert (
        converters.InferRequestedOutputTensorConverter.to_types(
            converters.InferRequestedOutputTensorConverter.from_types(wanted)
        )
        == wanted
    )
    for converter, message in (
        (converters.InferInputTensorConverter, ModelInferRequest.InferInputTensor),
        (converters.InferOutputTensorConverter, ModelInferResponse.InferOutputTensor),
    ):
        # As in a message that has raw contents, which stand beside its tensors.
        bare = converter.to_types(message(name="y", datatype="FP16", shape=[2]))
        assert (bare.name, bare.datatype, bare.shape, bare.data.root) == ("y", "FP16", [2], [])
    contents = converters.InferTensorContentsConverter.from_types(answered.data, "BYTES")
    assert converters.InferTensorContentsConverter.to_types(contents).root == [b"a"]
    parameters = Parameters(content_type="str", free=1)
    assert (
        converters.ParametersConverter.to_types(converters.ParametersConverter.from_types(parameters))
        == parameters
    )


@pytest.mark.parametrize("datatype", ["INT64", Datatype.INT64])
@pytest.mark.parametrize("values", [[6], TensorData([6])])
def test_contents_accept_plain_lists(datatype: str, values: object) -> None:
    assert InferTensorContentsConverter.from_types(values, datatype) == pb.InferTensorContents(
        int64_contents=[6]
    )


@pytest.mark.parametrize("parameters", [{}, {"priority": pb.InferParameter(int64_param=2)}])
def test_converted_request_equals_manual_one(parameters: dict[str, pb.InferParameter]) -> None:
    message = pb.ModelInferRequest(
        inputs=[
            pb.ModelInferRequest.InferInputTensor(
                name="x", datatype="INT32", shape=[1], contents=pb.InferTensorContents(int_contents=[4])
            )
        ],
        parameters=parameters,
    )
    given = {"parameters": Parameters(priority=2)} if parameters else {}
    inputs = [RequestInput(name="x", datatype="INT32", shape=[1], data=[4])]
    found, expected = (
        ModelInferRequestConverter.to_types(message),
        InferenceRequest(id="", inputs=inputs, **given),
    )
    assert found == expected
    assert dict(found) == dict(expected)
    assert found.model_dump() == expected.model_dump()
