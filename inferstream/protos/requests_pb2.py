"""The messages of the Requests service. `make protos` generates their type stub."""

from .pool import POOL, message_classes

DESCRIPTOR = POOL.FindFileByName("requests.proto")
globals().update(message_classes(DESCRIPTOR))
