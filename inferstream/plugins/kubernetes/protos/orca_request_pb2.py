"""The request of a stream of reports; `make protos` writes the stub, which holds its type."""

from .pool import POOL, message_class

DESCRIPTOR = POOL.FindFileByName("xds/service/orca/v3/orca_request.proto")
OrcaLoadReportRequest = message_class("xds.service.orca.v3.OrcaLoadReportRequest")
