"""The load around requests: in headers and trailers of responses, in the metrics, and as a stream."""

from inferstream.dataplane.load import Loads
from inferstream.ext.calls import ServerParts
from inferstream.ext.http import Edge, ServeBytes
from inferstream.server.orca import LoadReports, build_reports
from inferstream.server.rest.load import exposition


class LoadEdge(Edge):
    """Tells the load with whole responses, with the heads of streams, and at the end of RPCs."""

    def __init__(self, reports: LoadReports) -> None:
        self._reports = reports
        self.headers = reports.headers

    def rpc(self, path: str, serve: ServeBytes, infers: bool) -> ServeBytes:
        if not infers:
            return serve
        from inferstream.server.grpc.orca import (
            with_load,  # late: an application without ports needs no protobuf
        )

        return with_load(self._reports, serve)


def build_edge(parts: ServerParts) -> LoadEdge | None:
    """The edge, which the settings may turn off. The metrics always have the load."""
    loads = parts.of(Loads)

    async def totals() -> bytes:
        return exposition(await loads.totals(), parts.settings)

    parts.meters.more.append(totals)
    reports = parts.of(build_reports)
    return None if reports is None else LoadEdge(reports)
