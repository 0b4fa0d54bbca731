"""The protocol's messages. `make protos` generates their type stub."""

from .pool import POOL, message_classes

DESCRIPTOR = POOL.FindFileByName("dataplane.proto")
globals().update(message_classes(DESCRIPTOR))
