"""Converters between the protocol's types and gRPC messages, with MLServer's names."""

from collections.abc import Mapping
from typing import Any

from ..types import (
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
    RequestOutput,
    ResponseOutput,
    TensorData,
)
from . import dataplane_pb2 as pb
from . import grpc as wire
from .grpc_responses import WRITERS


class ServerMetadataResponseConverter:
    @staticmethod
    def to_types(pb_object: pb.ServerMetadataResponse) -> MetadataServerResponse:
        return MetadataServerResponse(
            name=pb_object.name, version=pb_object.version, extensions=list(pb_object.extensions)
        )

    @staticmethod
    def from_types(type_object: MetadataServerResponse) -> pb.ServerMetadataResponse:
        return pb.ServerMetadataResponse(
            name=type_object.name, version=type_object.version, extensions=type_object.extensions
        )


class TensorMetadataConverter:
    @staticmethod
    def to_types(pb_object: pb.ModelMetadataResponse.TensorMetadata) -> MetadataTensor:
        return MetadataTensor(
            name=pb_object.name,
            datatype=pb_object.datatype,
            shape=list(pb_object.shape),
            parameters=wire.parameters_from(pb_object.parameters),
        )

    @staticmethod
    def from_types(type_object: MetadataTensor) -> pb.ModelMetadataResponse.TensorMetadata:
        message = pb.ModelMetadataResponse.TensorMetadata(
            name=type_object.name, datatype=type_object.datatype, shape=type_object.shape
        )
        wire.parameters_to(type_object.parameters, message.parameters)
        return message


class ModelMetadataResponseConverter:
    @staticmethod
    def to_types(pb_object: pb.ModelMetadataResponse) -> MetadataModelResponse:
        return MetadataModelResponse(
            name=pb_object.name,
            platform=pb_object.platform,
            versions=list(pb_object.versions),
            inputs=[TensorMetadataConverter.to_types(tensor) for tensor in pb_object.inputs] or None,
            outputs=[TensorMetadataConverter.to_types(tensor) for tensor in pb_object.outputs] or None,
            parameters=wire.parameters_from(pb_object.parameters),
        )

    @staticmethod
    def from_types(type_object: MetadataModelResponse) -> pb.ModelMetadataResponse:
        message = pb.ModelMetadataResponse(
            name=type_object.name,
            platform=type_object.platform,
            versions=type_object.versions or [],
            inputs=[TensorMetadataConverter.from_types(tensor) for tensor in type_object.inputs or []],
            outputs=[TensorMetadataConverter.from_types(tensor) for tensor in type_object.outputs or []],
        )
        wire.parameters_to(type_object.parameters, message.parameters)
        return message


class ModelInferRequestConverter:
    @staticmethod
    def to_types(pb_object: pb.ModelInferRequest) -> InferenceRequest:
        return wire.request_from(pb_object)

    @staticmethod
    def from_types(
        type_object: InferenceRequest,
        model_name: str,
        model_version: str | None = None,
        use_raw: bool = False,
    ) -> pb.ModelInferRequest:
        return wire.request_to(type_object, model_name, model_version, use_raw)


class ModelInferResponseConverter:
    @staticmethod
    def to_types(pb_object: pb.ModelInferResponse) -> InferenceResponse:
        return wire.response_from(pb_object)

    @staticmethod
    def from_types(type_object: InferenceResponse, use_raw: bool = False) -> pb.ModelInferResponse:
        return pb.ModelInferResponse.FromString(type_object.accept(WRITERS[not use_raw]))


class InferInputTensorConverter:
    @staticmethod
    def to_types(pb_object: pb.ModelInferRequest.InferInputTensor) -> RequestInput:
        if _has_no_contents(pb_object):
            return RequestInput(**_without_values(pb_object))
        return wire.request_from(pb.ModelInferRequest(inputs=[pb_object])).inputs[0]

    @staticmethod
    def from_types(type_object: RequestInput) -> pb.ModelInferRequest.InferInputTensor:
        return wire.request_to(InferenceRequest(inputs=[type_object]), "").inputs[0]


class InferRequestedOutputTensorConverter:
    @staticmethod
    def to_types(pb_object: pb.ModelInferRequest.InferRequestedOutputTensor) -> RequestOutput:
        request = wire.request_from(pb.ModelInferRequest(outputs=[pb_object]))
        return (request.outputs or [])[0]

    @staticmethod
    def from_types(type_object: RequestOutput) -> pb.ModelInferRequest.InferRequestedOutputTensor:
        return wire.request_to(InferenceRequest(inputs=[], outputs=[type_object]), "").outputs[0]


class InferOutputTensorConverter:
    @staticmethod
    def to_types(pb_object: pb.ModelInferResponse.InferOutputTensor) -> ResponseOutput:
        if _has_no_contents(pb_object):
            return ResponseOutput(**_without_values(pb_object))
        return wire.response_from(pb.ModelInferResponse(outputs=[pb_object])).outputs[0]

    @staticmethod
    def from_types(type_object: ResponseOutput) -> pb.ModelInferResponse.InferOutputTensor:
        response = InferenceResponse(model_name="", outputs=[type_object])
        return ModelInferResponseConverter.from_types(response).outputs[0]


def _has_no_contents(message: wire.TensorMessage) -> bool:
    return not message.contents.ListFields()


def _without_values(message: wire.TensorMessage) -> dict[str, Any]:
    return {
        "name": message.name,
        "datatype": message.datatype,
        "shape": list(message.shape),
        "parameters": wire.parameters_from(message.parameters),
        "data": [],
    }


class InferTensorContentsConverter:
    @staticmethod
    def to_types(pb_object: pb.InferTensorContents) -> TensorData:
        filled = pb_object.ListFields()
        return TensorData(list(filled[0][1]) if filled else [])

    @staticmethod
    def from_types(type_object: TensorData | list[Any], datatype: str) -> pb.InferTensorContents:
        data = type_object if isinstance(type_object, TensorData) else TensorData(type_object)
        values = wire.contents_of(data, datatype)
        return pb.InferTensorContents(**{wire.FIELDS[datatype]: values})


class ParametersConverter:
    @staticmethod
    def to_types(pb_object: Mapping[str, pb.InferParameter]) -> Parameters | None:
        return wire.parameters_from(pb_object)

    @staticmethod
    def from_types(type_object: Parameters) -> Mapping[str, pb.InferParameter]:
        message = pb.ModelInferRequest()
        wire.parameters_to(type_object, message.parameters)
        return message.parameters


class RepositoryIndexRequestConverter:
    @staticmethod
    def to_types(pb_object: pb.RepositoryIndexRequest) -> RepositoryIndexRequest:
        return RepositoryIndexRequest(ready=pb_object.ready)

    @staticmethod
    def from_types(
        type_object: RepositoryIndexRequest, repository_name: str = ""
    ) -> pb.RepositoryIndexRequest:
        return pb.RepositoryIndexRequest(repository_name=repository_name, ready=bool(type_object.ready))


class RepositoryIndexResponseItemConverter:
    @staticmethod
    def to_types(pb_object: pb.RepositoryIndexResponse.ModelIndex) -> RepositoryIndexResponseItem:
        return RepositoryIndexResponseItem(
            name=pb_object.name, version=pb_object.version, state=pb_object.state, reason=pb_object.reason
        )

    @staticmethod
    def from_types(
        type_object: RepositoryIndexResponseItem, use_model_repository: bool = False
    ) -> pb.RepositoryIndexResponse.ModelIndex:
        state = getattr(type_object.state, "value", type_object.state)
        return pb.RepositoryIndexResponse.ModelIndex(
            name=type_object.name, version=type_object.version or "", state=state, reason=type_object.reason
        )


class RepositoryIndexResponseConverter:
    @staticmethod
    def to_types(pb_object: pb.RepositoryIndexResponse) -> RepositoryIndexResponse:
        items = [RepositoryIndexResponseItemConverter.to_types(model) for model in pb_object.models]
        return RepositoryIndexResponse(root=items)

    @staticmethod
    def from_types(
        type_object: RepositoryIndexResponse, use_model_repository: bool = False
    ) -> pb.RepositoryIndexResponse:
        return pb.RepositoryIndexResponse(
            models=[RepositoryIndexResponseItemConverter.from_types(item) for item in type_object]
        )
