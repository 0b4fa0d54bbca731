"""Adds load reports to response headers, RPC trailers and the metrics."""

from inferstream.ext.calls import ServerParts
from inferstream.ext.http import Edge, ServeBytes
from inferstream.plugins.kubernetes.load import Loads
from inferstream.plugins.kubernetes.load_headers import exposition
from inferstream.plugins.kubernetes.orca import LoadReports, build_reports


class LoadEdge(Edge):
    """Adds the load to complete responses, to the headers of streams and to the trailers of RPCs."""

    def __init__(self, reports: LoadReports) -> None:
        self._reports = reports
        self.headers = reports.headers

    def rpc(self, path: str, serve: ServeBytes, infers: bool) -> ServeBytes:
        if not infers:
            return serve
        from inferstream.plugins.kubernetes.orca_rpcs import (
            add_load,  # Imported lazily: applications without ports do not need protobuf.
        )

        return add_load(self._reports, serve)


def build_edge(parts: ServerParts) -> LoadEdge | None:
    """Build the edge, or return None if the settings disable it. The metrics always include the load."""
    loads = parts.of(Loads)

    async def totals() -> bytes:
        return exposition(await loads.totals(), parts.settings)

    parts.meters.more.append(totals)
    reports = parts.of(build_reports)
    return None if reports is None else LoadEdge(reports)
