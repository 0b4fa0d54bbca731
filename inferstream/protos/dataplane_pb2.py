"""The protocol's messages; `make protos` writes the stub, which holds their types."""

from .pool import POOL, message_classes

DESCRIPTOR = POOL.FindFileByName("dataplane.proto")
globals().update(message_classes(DESCRIPTOR))
