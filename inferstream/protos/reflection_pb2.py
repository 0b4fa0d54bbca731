"""The messages of the gRPC reflection service. `make protos` generates their type stub."""

from .pool import POOL, message_classes

DESCRIPTOR = POOL.FindFileByName("grpc/reflection/v1/reflection.proto")
globals().update(message_classes(DESCRIPTOR))
