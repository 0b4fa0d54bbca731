"""The messages of the service of requests; `make protos` writes the stub, which holds their types."""

from .pool import POOL, message_classes

DESCRIPTOR = POOL.FindFileByName("requests.proto")
globals().update(message_classes(DESCRIPTOR))
