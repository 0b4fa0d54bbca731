"""The messages of the engine protocol. They are in their own descriptor pool.

Only the numbers and types of their fields matter, because a peer never sees their names.
"""

from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

POOL = DescriptorPool()
for _file in FileDescriptorSet.FromString((files(__package__) / "engine.binpb").read_bytes()).file:
    POOL.Add(_file)


def _message(name: str) -> Any:
    return GetMessageClass(POOL.FindMessageTypeByName(f"inferstream.engine.{name}"))


Empty = _message("Empty")
Generate = _message("Generate")
Generated = _message("Generated")
Health = _message("Health")
Loads = _message("Loads")
ModelInfo = _message("ModelInfo")
ServerInfo = _message("ServerInfo")
TokenizerPart = _message("TokenizerPart")
