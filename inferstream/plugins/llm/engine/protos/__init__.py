"""The messages of engine protocols.

Only the numbers and types of their fields matter, because a peer never sees their names.
"""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


def load_messages(name: str) -> Callable[[str], Any]:
    """Return a function that returns the class of a message in `NAME.binpb`, which has its own descriptor pool."""
    pool = DescriptorPool()
    [file] = FileDescriptorSet.FromString((files(__package__) / f"{name}.binpb").read_bytes()).file
    pool.Add(file)
    return lambda message: GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{message}"))
