"""The request message for streamed ORCA load reports. `make protos` generates its type stub."""

from .pool import POOL, message_class

DESCRIPTOR = POOL.FindFileByName("xds/service/orca/v3/orca_request.proto")
OrcaLoadReportRequest = message_class("xds.service.orca.v3.OrcaLoadReportRequest")
