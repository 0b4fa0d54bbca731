"""Messages of gRPC, by their names."""

from typing import Any

from google.protobuf.message_factory import GetMessageClass

from inferstream.ext.rpc import ModelInferResponse


def message_of(name: str) -> Any:
    """The class of a message of the V2 protocol."""
    return GetMessageClass(ModelInferResponse.DESCRIPTOR.file.message_types_by_name[name])
