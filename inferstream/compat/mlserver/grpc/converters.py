"""Between the protocol's types and its gRPC messages."""

from inferstream.protos.converters import (
    InferInputTensorConverter,
    InferOutputTensorConverter,
    InferRequestedOutputTensorConverter,
    InferTensorContentsConverter,
    ModelInferRequestConverter,
    ModelInferResponseConverter,
    ModelMetadataResponseConverter,
    ParametersConverter,
    RepositoryIndexRequestConverter,
    RepositoryIndexResponseConverter,
    RepositoryIndexResponseItemConverter,
    ServerMetadataResponseConverter,
    TensorMetadataConverter,
)

__all__ = [
    "InferInputTensorConverter",
    "InferOutputTensorConverter",
    "InferRequestedOutputTensorConverter",
    "InferTensorContentsConverter",
    "ModelInferRequestConverter",
    "ModelInferResponseConverter",
    "ModelMetadataResponseConverter",
    "ParametersConverter",
    "RepositoryIndexRequestConverter",
    "RepositoryIndexResponseConverter",
    "RepositoryIndexResponseItemConverter",
    "ServerMetadataResponseConverter",
    "TensorMetadataConverter",
]
