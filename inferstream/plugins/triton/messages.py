"""Messages of the protocol's file that only Triton's clients use."""

from collections.abc import Mapping
from typing import Any, Protocol

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from inferstream.ext.rpc import ModelInferResponse

_FILE: Any = ModelInferResponse.DESCRIPTOR.file  # the stubs know two kinds of descriptors

SERVICE: ServiceDescriptor = _FILE.services_by_name["GRPCInferenceService"]


def _message(name: str) -> type[Message]:
    """The class of a message."""
    return GetMessageClass(_FILE.message_types_by_name[name])


ModelConfig: Any = _message("ModelConfig")
ModelStreamInferResponse: Any = _message("ModelStreamInferResponse")
ModelConfigResponse = _message("ModelConfigResponse")
ModelStatisticsResponse = _message("ModelStatisticsResponse")
LogSettingsResponse = _message("LogSettingsResponse")
TraceSettingResponse = _message("TraceSettingResponse")
SystemSharedMemoryStatusResponse = _message("SystemSharedMemoryStatusResponse")
SystemSharedMemoryRegisterResponse = _message("SystemSharedMemoryRegisterResponse")
SystemSharedMemoryUnregisterResponse = _message("SystemSharedMemoryUnregisterResponse")


class ModelRequest(Protocol):
    """A question about a model. `version` may be empty."""

    name: str
    version: str


class SettingsRequest(Protocol):
    """Changes of settings, by name."""

    settings: Mapping[str, Any]


class TraceRequest(SettingsRequest, Protocol):
    model_name: str
    """Empty for the whole server."""


class RegionRequest(Protocol):
    """A question about a region of shared memory, or about all of them without a `name`."""

    name: str


class RegionRegistration(RegionRequest, Protocol):
    key: str
    offset: int
    byte_size: int
