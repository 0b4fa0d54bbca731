"""Converters between protocol types and gRPC messages, with the names that MLServer uses."""

from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    MetadataServerResponse,
    MetadataTensor,
    RepositoryIndexResponse,
    RepositoryIndexResponseItem,
)
from . import dataplane_pb2 as pb
from . import grpc as wire
from .grpc_responses import WRITERS


class ServerMetadataResponseConverter:
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
            parameters=wire.read_parameters(pb_object.parameters),
        )

    @staticmethod
    def from_types(type_object: MetadataTensor) -> pb.ModelMetadataResponse.TensorMetadata:
        message = pb.ModelMetadataResponse.TensorMetadata(
            name=type_object.name, datatype=type_object.datatype, shape=type_object.shape
        )
        wire.write_parameters(type_object.parameters, message.parameters)
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
            parameters=wire.read_parameters(pb_object.parameters),
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
        wire.write_parameters(type_object.parameters, message.parameters)
        return message


class ModelInferRequestConverter:
    @staticmethod
    def to_types(pb_object: pb.ModelInferRequest) -> InferenceRequest:
        return wire.parse_request(pb_object)

    @staticmethod
    def from_types(
        type_object: InferenceRequest,
        model_name: str,
        model_version: str | None = None,
        use_raw: bool = False,
    ) -> pb.ModelInferRequest:
        return wire.build_request_message(type_object, model_name, model_version, use_raw)


class ModelInferResponseConverter:
    @staticmethod
    def to_types(pb_object: pb.ModelInferResponse) -> InferenceResponse:
        return wire.parse_response(pb_object)

    @staticmethod
    def from_types(type_object: InferenceResponse, use_raw: bool = False) -> pb.ModelInferResponse:
        return pb.ModelInferResponse.FromString(type_object.accept(WRITERS[not use_raw]))


class RepositoryIndexResponseItemConverter:
    @staticmethod
    def to_types(pb_object: pb.RepositoryIndexResponse.ModelIndex) -> RepositoryIndexResponseItem:
        return RepositoryIndexResponseItem(
            name=pb_object.name, version=pb_object.version, state=pb_object.state, reason=pb_object.reason
        )

    @staticmethod
    def from_types(type_object: RepositoryIndexResponseItem) -> pb.RepositoryIndexResponse.ModelIndex:
        state = getattr(type_object.state, "value", type_object.state)
        return pb.RepositoryIndexResponse.ModelIndex(
            name=type_object.name, version=type_object.version or "", state=state, reason=type_object.reason
        )


class RepositoryIndexResponseConverter:
    @staticmethod
    def to_types(pb_object: pb.RepositoryIndexResponse) -> RepositoryIndexResponse:
        items = [RepositoryIndexResponseItemConverter.to_types(model) for model in pb_object.models]
        return RepositoryIndexResponse(root=items)
