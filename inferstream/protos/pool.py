"""The descriptor pool of the gRPC messages, and the names of the services in it.

Triton's, KServe's and MLServer's clients define messages of the same full names, as grpcio-health-checking and
grpcio-reflection do of gRPC's own services. In protobuf's default pool the second one imported would fail, and
model code may well import one of them. The classes are made here at import: modules that protoc has generated
refuse an older protobuf, and the server could not start beside a package that holds protobuf back.
"""

from importlib.resources import files

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

SERVICE = "inference.GRPCInferenceService"
LEGACY_SERVICE = "inference.model_repository.ModelRepositoryService"
"""MLServer's older home of the repository's RPCs, with the same names and messages."""

HEALTH = "grpc.health.v1.Health"
REFLECTION = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
"""The names of the reflection service. The messages of both are the same on the wire: v1's serve both."""

POOL = DescriptorPool()
for _name in ("dataplane.binpb", "standard.binpb"):
    for _file in FileDescriptorSet.FromString((files(__package__) / _name).read_bytes()).file:
        POOL.Add(_file)


def message_classes(file: FileDescriptor) -> dict[str, type[Message]]:
    """The classes of a file's messages by name, for the module that has the file's stub."""
    return {name: GetMessageClass(message) for name, message in file.message_types_by_name.items()}
