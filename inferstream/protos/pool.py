"""The descriptor pool of the gRPC messages, and the names of the services in it.

Triton's, KServe's and MLServer's clients define messages of the same full names. grpcio-health-checking and
grpcio-reflection do so for gRPC's own services. In protobuf's default pool the second import of a name fails, and
model code may import one of them. The classes are made here at import, because modules that protoc generates
require a recent protobuf, and another package may need an older one.
"""

from importlib.resources import files

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

SERVICE = "inference.GRPCInferenceService"
LEGACY_SERVICE = "inference.model_repository.ModelRepositoryService"
"""MLServer's older service of the repository RPCs, with the same names and messages."""

REQUESTS = "inferstream.control.Requests"
"""What this server adds to the protocol."""

HEALTH = "grpc.health.v1.Health"
REFLECTION = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
"""The names of the reflection service. Both have the same messages on the wire; v1's classes serve both."""

POOL = DescriptorPool()
for _name in ("dataplane.binpb", "requests.binpb", "standard.binpb"):
    for _file in FileDescriptorSet.FromString((files(__package__) / _name).read_bytes()).file:
        POOL.Add(_file)


def message_classes(file: FileDescriptor) -> dict[str, type[Message] | EnumTypeWrapper | int]:
    """The classes of a file's messages and its enums by name, for the module that has the file's stub."""
    enums = {name: EnumTypeWrapper(enum) for name, enum in file.enum_types_by_name.items()}
    values = {name: number for enum in enums.values() for name, number in enum.items()}
    messages = {name: GetMessageClass(message) for name, message in file.message_types_by_name.items()}
    return {**values, **enums, **messages}
