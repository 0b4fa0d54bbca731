"""Messages of ORCA; `make protos` writes the stub, which holds their types."""

from .pool import POOL, message_classes

DESCRIPTOR = POOL.FindFileByName("xds/data/orca/v3/orca_load_report.proto")
globals().update(message_classes(DESCRIPTOR))
