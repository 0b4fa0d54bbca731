"""Load reports over gRPC: in the trailers of inferences, and as a stream."""

import asyncio
from contextlib import aclosing

from inferstream.ext.calls import Action, ServerModels
from inferstream.ext.http import ServeBytes
from inferstream.ext.rpc import RpcContext, RpcExchange, RpcService

from .orca import FORMAT, SERVICE, TRAILER, LoadReports, build_reports
from .protos.orca_request_pb2 import OrcaLoadReportRequest
from .protos.pool import POOL

SHORTEST = 0.1
"""Minimum interval of stream reports in seconds, because each report queries all front ends."""

USUAL = 30.0
"""Default interval of stream reports in seconds."""


class OrcaService(RpcService):
    """Streams load reports."""

    descriptor = POOL.FindServiceByName(SERVICE)
    actions = {"StreamCoreMetrics": Action.METRICS}
    needs_start = False

    def __init__(self, reports: LoadReports) -> None:
        self._reports = reports

    async def StreamCoreMetrics(self, exchange: RpcExchange[OrcaLoadReportRequest]) -> None:
        """Send the load at the requested interval until the client disconnects."""
        request = await exchange.read()
        seconds = 0.0
        if request is not None:
            seconds = request.report_interval.seconds + request.report_interval.nanos / 1e9
        async with aclosing(self._reports.stream_reports()) as reports:
            async for report in reports:
                await exchange.write(report)
                await asyncio.sleep(max(seconds, SHORTEST) if seconds > 0 else USUAL)


def build_service(dataplane: ServerModels, *_: object) -> OrcaService | None:
    """Build the service, or return None if the settings disable reports."""
    reports = dataplane.of(build_reports)
    return None if reports is None else OrcaService(reports)


def add_load(reports: LoadReports, serve: ServeBytes) -> ServeBytes:
    """Wrap an RPC so that its trailers contain the load when it ends."""

    async def serve_and_report(incoming: bytes | None, context: RpcContext) -> bytes | None:
        if not reports.always and all(name != FORMAT for name, _ in context.metadata.pairs):
            return await serve(incoming, context)
        try:
            return await serve(incoming, context)
        finally:
            context.add_trailing_metadata(((TRAILER, reports.trailer()),))

    return serve_and_report
