"""The messages of gRPC's health service; `make protos` writes the stub, which holds their types."""

from .pool import POOL, message_classes

DESCRIPTOR = POOL.FindFileByName("grpc/health/v1/health.proto")
globals().update(message_classes(DESCRIPTOR))
