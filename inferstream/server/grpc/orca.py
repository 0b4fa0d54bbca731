"""Load reports over gRPC: in the trailers of inferences, and in a stream of their own."""

import asyncio
from contextlib import aclosing

from inferstream.ext.calls import Action, ServerModels
from inferstream.ext.http import ServeBytes
from inferstream.ext.rpc import RpcContext, RpcExchange, RpcService
from inferstream.plugins.kubernetes.protos.orca_request_pb2 import OrcaLoadReportRequest
from inferstream.plugins.kubernetes.protos.pool import POOL

from ..orca import FORMAT, SERVICE, TRAILER, LoadReports, build_reports

SHORTEST = 0.1
"""Seconds between two reports of a stream at least, because each asks all front ends."""

USUAL = 30.0
"""Seconds between two reports for a client that names no interval."""


class OrcaService(RpcService):
    """Streams of reports."""

    descriptor = POOL.FindServiceByName(SERVICE)
    actions = {"StreamCoreMetrics": Action.METRICS}
    needs_start = False

    def __init__(self, reports: LoadReports) -> None:
        self._reports = reports

    async def StreamCoreMetrics(self, exchange: RpcExchange[OrcaLoadReportRequest]) -> None:
        """Send the load at the interval of the request until the client leaves."""
        request = await exchange.read()
        seconds = 0.0
        if request is not None:
            seconds = request.report_interval.seconds + request.report_interval.nanos / 1e9
        async with aclosing(self._reports.successive()) as reports:
            async for report in reports:
                await exchange.write(report)
                await asyncio.sleep(max(seconds, SHORTEST) if seconds > 0 else USUAL)


def build_service(dataplane: ServerModels, *_: object) -> OrcaService | None:
    """The service; None where the settings turn reports off."""
    reports = dataplane.of(build_reports)
    return None if reports is None else OrcaService(reports)


def with_load(reports: LoadReports, serve: ServeBytes) -> ServeBytes:
    """An RPC whose trailers have the load when it ends."""

    async def reported(incoming: bytes | None, context: RpcContext) -> bytes | None:
        if not reports.always and all(name != FORMAT for name, _ in context.metadata.pairs):
            return await serve(incoming, context)
        try:
            return await serve(incoming, context)
        finally:
            context.add_trailing_metadata(((TRAILER, reports.trailer()),))

    return reported
