"""The messages of gRPC's reflection service; `make protos` writes the stub, which holds their types."""

from .pool import POOL, message_classes

DESCRIPTOR = POOL.FindFileByName("grpc/reflection/v1/reflection.proto")
globals().update(message_classes(DESCRIPTOR))
