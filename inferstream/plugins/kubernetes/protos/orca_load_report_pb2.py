"""A report; `make protos` writes the stub, which holds its type."""

from .pool import POOL, message_class

DESCRIPTOR = POOL.FindFileByName("xds/data/orca/v3/orca_load_report.proto")
OrcaLoadReport = message_class("xds.data.orca.v3.OrcaLoadReport")
