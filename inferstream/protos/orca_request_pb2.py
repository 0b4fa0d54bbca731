"""Messages of ORCA; `make protos` writes the stub, which holds their types."""

from .pool import POOL, message_classes

DESCRIPTOR = POOL.FindFileByName("xds/service/orca/v3/orca_request.proto")
globals().update(message_classes(DESCRIPTOR))
