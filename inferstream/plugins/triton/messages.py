"""Protocol messages that only Triton clients use."""

from collections.abc import Mapping
from typing import Any, Protocol

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from inferstream.ext.rpc import ModelInferResponse

_FILE: Any = ModelInferResponse.DESCRIPTOR.file  # The type stubs have two kinds of descriptors.

SERVICE: ServiceDescriptor = _FILE.services_by_name["GRPCInferenceService"]


def _message_class(name: str) -> type[Message]:
    """Return the class of a message by its name."""
    return GetMessageClass(_FILE.message_types_by_name[name])


ModelConfig: Any = _message_class("ModelConfig")
ModelStreamInferResponse: Any = _message_class("ModelStreamInferResponse")
ModelConfigResponse = _message_class("ModelConfigResponse")
ModelStatisticsResponse = _message_class("ModelStatisticsResponse")
LogSettingsResponse = _message_class("LogSettingsResponse")
TraceSettingResponse = _message_class("TraceSettingResponse")
SystemSharedMemoryStatusResponse = _message_class("SystemSharedMemoryStatusResponse")
SystemSharedMemoryRegisterResponse = _message_class("SystemSharedMemoryRegisterResponse")
SystemSharedMemoryUnregisterResponse = _message_class("SystemSharedMemoryUnregisterResponse")


class ModelRequest(Protocol):
    """A request for information about a model. `version` may be empty."""

    name: str
    version: str


class SettingsRequest(Protocol):
    """A request to change settings, by name."""

    settings: Mapping[str, Any]


class TraceRequest(SettingsRequest, Protocol):
    model_name: str
    """Empty for the whole server."""


class RegionRequest(Protocol):
    """A request about one region of shared memory, or about all regions if `name` is empty."""

    name: str


class RegionRegistration(RegionRequest, Protocol):
    key: str
    offset: int
    byte_size: int
