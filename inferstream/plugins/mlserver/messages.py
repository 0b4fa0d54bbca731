"""The protocol's messages, with the names of the generated module."""

from typing import Any

from google.protobuf.message_factory import GetMessageClass

from inferstream.ext.rpc import METHODS

DESCRIPTOR = METHODS[0].containing_service.file


def __getattr__(name: str) -> Any:
    """Return the class of a message. Raises AttributeError for an unknown name."""
    try:
        return GetMessageClass(DESCRIPTOR.message_types_by_name[name])
    except KeyError:
        raise AttributeError(f"the protocol has no message {name}") from None
