"""Server, model and repository descriptions (Open Inference Protocol and the model repository extension)."""

from collections.abc import Iterator
from enum import Enum

from pydantic import RootModel

from .base import BaseModel
from .parameters import Parameters
from .tensors import DatatypeName

NULLABLE = "nullable"
"""Tensor parameter of an input that accepts null.

Null means a missing value, or a value other than the default of an optional input.
"""

ROW_SCHEMA = "row_schema"
"""Tensor parameter of an input whose rows are documents: the JSON schema of a row, `array` or `object`."""


class MetadataTensor(BaseModel):
    """A declared input or output. In `shape`, -1 is any size."""

    name: str
    datatype: DatatypeName
    shape: list[int]
    parameters: Parameters | None = None


class MetadataServerResponse(BaseModel):
    """Server metadata: the response of `GET /v2`."""

    name: str
    version: str
    extensions: list[str]


class MetadataModelResponse(BaseModel):
    """Model metadata: the response of `GET /v2/models/{name}`."""

    name: str
    platform: str
    versions: list[str] | None = None
    inputs: list[MetadataTensor] | None = None
    outputs: list[MetadataTensor] | None = None
    parameters: Parameters | None = None


class MetadataServerErrorResponse(BaseModel):
    """Body of a failed request for server metadata."""

    error: str


class MetadataModelErrorResponse(BaseModel):
    """Body of a failed request for model metadata."""

    error: str


class State(str, Enum):
    """State of a model in the repository."""

    UNKNOWN = "UNKNOWN"
    READY = "READY"
    UNAVAILABLE = "UNAVAILABLE"
    LOADING = "LOADING"
    UNLOADING = "UNLOADING"


class RepositoryIndexRequest(BaseModel):
    """Body of a request for the repository index. `ready: true` selects models that are ready."""

    ready: bool | None = None


class RepositoryIndexResponseItem(BaseModel):
    """One version of one model. `reason` explains why the model is not ready, or is empty."""

    name: str
    version: str | None = None
    state: State
    reason: str


class RepositoryIndexResponse(RootModel[list[RepositoryIndexResponseItem]]):
    """Response of the repository index: a list of items."""

    def __iter__(self) -> Iterator[RepositoryIndexResponseItem]:  # type: ignore[override]  # a list, not fields
        return iter(self.root)

    def __getitem__(self, index: int) -> RepositoryIndexResponseItem:
        return self.root[index]

    def __len__(self) -> int:
        return len(self.root)


class RepositoryLoadErrorResponse(BaseModel):
    """Body of a failed load."""

    error: str | None = None


class RepositoryUnloadErrorResponse(BaseModel):
    """Body of a failed unload."""

    error: str | None = None
