"""The descriptor pool of ORCA's messages. In protobuf's default pool, other packages define the same names."""

from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

POOL = DescriptorPool()
for _file in FileDescriptorSet.FromString((files(__package__) / "orca.binpb").read_bytes()).file:
    POOL.Add(_file)


def message_class(name: str) -> Any:
    """The class of the message with a full name, for the module that has its stub."""
    return GetMessageClass(POOL.FindMessageTypeByName(name))
