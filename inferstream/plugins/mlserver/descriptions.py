"""Converters between server, model and repository metadata and their gRPC messages."""

from typing import Any

from inferstream.types import (
    MetadataModelResponse,
    MetadataServerResponse,
    MetadataTensor,
    RepositoryIndexRequest,
    RepositoryIndexResponse,
    RepositoryIndexResponseItem,
)

from . import messages
from .converters import ParametersConverter


class ServerMetadataResponseConverter:
    @staticmethod
    def to_types(pb_object: Any) -> MetadataServerResponse:
        return MetadataServerResponse(
            name=pb_object.name, version=pb_object.version, extensions=list(pb_object.extensions)
        )

    @staticmethod
    def from_types(type_object: MetadataServerResponse) -> Any:
        return messages.ServerMetadataResponse(**dict(type_object))


class TensorMetadataConverter:
    @staticmethod
    def to_types(pb_object: Any) -> MetadataTensor:
        return MetadataTensor(
            name=pb_object.name,
            datatype=pb_object.datatype,
            shape=list(pb_object.shape),
            parameters=ParametersConverter.to_types(pb_object.parameters),
        )

    @staticmethod
    def from_types(type_object: MetadataTensor) -> Any:
        return messages.ModelMetadataResponse.TensorMetadata(**_message_fields(type_object))


class ModelMetadataResponseConverter:
    @staticmethod
    def to_types(pb_object: Any) -> MetadataModelResponse:
        return MetadataModelResponse(
            name=pb_object.name,
            platform=pb_object.platform,
            versions=list(pb_object.versions),
            inputs=[TensorMetadataConverter.to_types(tensor) for tensor in pb_object.inputs] or None,
            outputs=[TensorMetadataConverter.to_types(tensor) for tensor in pb_object.outputs] or None,
            parameters=ParametersConverter.to_types(pb_object.parameters),
        )

    @staticmethod
    def from_types(type_object: MetadataModelResponse) -> Any:
        fields = _message_fields(type_object)
        for side in ("inputs", "outputs"):
            fields[side] = [TensorMetadataConverter.from_types(tensor) for tensor in fields[side] or ()]
        return messages.ModelMetadataResponse(**fields)


def _message_fields(type_object: MetadataTensor | MetadataModelResponse) -> dict[str, Any]:
    """Return the fields of the metadata, with the parameters converted for a message."""
    return {**dict(type_object), "parameters": ParametersConverter.from_types(type_object.parameters)}


class RepositoryIndexRequestConverter:
    @staticmethod
    def to_types(pb_object: Any) -> RepositoryIndexRequest:
        return RepositoryIndexRequest(ready=pb_object.ready)

    @staticmethod
    def from_types(type_object: RepositoryIndexRequest, repository_name: str = "") -> Any:
        return messages.RepositoryIndexRequest(repository_name=repository_name, ready=bool(type_object.ready))


class RepositoryIndexResponseItemConverter:
    @staticmethod
    def to_types(pb_object: Any) -> RepositoryIndexResponseItem:
        return RepositoryIndexResponseItem(
            name=pb_object.name, version=pb_object.version, state=pb_object.state, reason=pb_object.reason
        )

    @staticmethod
    def from_types(type_object: RepositoryIndexResponseItem, use_model_repository: bool = False) -> Any:
        state = getattr(type_object.state, "value", type_object.state)
        return messages.RepositoryIndexResponse.ModelIndex(**{**dict(type_object), "state": state})


class RepositoryIndexResponseConverter:
    @staticmethod
    def to_types(pb_object: Any) -> RepositoryIndexResponse:
        items = [RepositoryIndexResponseItemConverter.to_types(model) for model in pb_object.models]
        return RepositoryIndexResponse(root=items)

    @staticmethod
    def from_types(type_object: RepositoryIndexResponse, use_model_repository: bool = False) -> Any:
        models = [RepositoryIndexResponseItemConverter.from_types(item) for item in type_object]
        return messages.RepositoryIndexResponse(models=models)
