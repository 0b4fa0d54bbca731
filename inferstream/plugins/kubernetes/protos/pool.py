"""The descriptor pool of the ORCA messages.

Other packages define the same names in protobuf's default pool.
"""

from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

POOL = DescriptorPool()
for _file in FileDescriptorSet.FromString((files(__package__) / "orca.binpb").read_bytes()).file:
    POOL.Add(_file)


def message_class(name: str) -> Any:
    """Return the message class with this full name, which a `_pb2` module exports."""
    return GetMessageClass(POOL.FindMessageTypeByName(name))
