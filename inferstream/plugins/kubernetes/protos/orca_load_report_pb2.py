"""The ORCA load report message. `make protos` generates its type stub."""

from .pool import POOL, message_class

DESCRIPTOR = POOL.FindFileByName("xds/data/orca/v3/orca_load_report.proto")
OrcaLoadReport = message_class("xds.data.orca.v3.OrcaLoadReport")
