"""The V2 / Open Inference Protocol payloads as typed Python objects."""

from .base import BaseModel
from .datatypes import Datatype
from .inference import (
    Headers,
    InferenceErrorResponse,
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)
from .metadata import (
    MetadataModelErrorResponse,
    MetadataModelResponse,
    MetadataServerErrorResponse,
    MetadataServerResponse,
    MetadataTensor,
    RepositoryIndexRequest,
    RepositoryIndexResponse,
    RepositoryIndexResponseItem,
    RepositoryLoadErrorResponse,
    RepositoryUnloadErrorResponse,
    State,
)
from .tensor import TensorData

__all__ = [
    "BaseModel",
    "Datatype",
    "Headers",
    "InferenceErrorResponse",
    "InferenceRequest",
    "InferenceResponse",
    "MetadataModelErrorResponse",
    "MetadataModelResponse",
    "MetadataServerErrorResponse",
    "MetadataServerResponse",
    "MetadataTensor",
    "Parameters",
    "RepositoryIndexRequest",
    "RepositoryIndexResponse",
    "RepositoryIndexResponseItem",
    "RepositoryLoadErrorResponse",
    "RepositoryUnloadErrorResponse",
    "RequestInput",
    "RequestOutput",
    "ResponseOutput",
    "State",
    "TensorData",
]
