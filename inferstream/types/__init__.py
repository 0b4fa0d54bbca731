"""The V2 / Open Inference Protocol payloads as typed Python objects."""

from .base import BaseModel
from .datatypes import Datatype
from .inference import (
    InferenceErrorResponse,
    InferenceRequest,
    InferenceResponse,
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
from .parameters import Headers, Parameters
from .tensor import TensorData, Unread
from .tensors import RequestInput, RequestOutput, ResponseOutput

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
    "Unread",
]
