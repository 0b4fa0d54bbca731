"""Between the protocol's types and its gRPC messages."""

from inferstream.protos.converters import (
    ModelInferRequestConverter,
    ModelInferResponseConverter,
    ModelMetadataResponseConverter,
    RepositoryIndexRequestConverter,
    RepositoryIndexResponseConverter,
    RepositoryIndexResponseItemConverter,
    ServerMetadataResponseConverter,
    TensorMetadataConverter,
)

__all__ = [
    "ModelInferRequestConverter",
    "ModelInferResponseConverter",
    "ModelMetadataResponseConverter",
    "RepositoryIndexRequestConverter",
    "RepositoryIndexResponseConverter",
    "RepositoryIndexResponseItemConverter",
    "ServerMetadataResponseConverter",
    "TensorMetadataConverter",
]
