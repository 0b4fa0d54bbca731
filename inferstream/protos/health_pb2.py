"""The messages of the gRPC health service. `make protos` generates their type stub."""

from .pool import POOL, message_classes

DESCRIPTOR = POOL.FindFileByName("grpc/health/v1/health.proto")
globals().update(message_classes(DESCRIPTOR))
