"""The load around requests: in headers and trailers of responses, in the metrics, and as a stream."""

from inferstream.dataplane.load import Loads
from inferstream.ext.calls import ServerParts
from inferstream.ext.http import Edge
from inferstream.ext.rpc import ServeRpc
from inferstream.server.grpc.orca import OrcaService, with_load
from inferstream.server.orca import LoadReports
from inferstream.server.rest.load import exposition


class LoadEdge(Edge):
    """Tells the load with whole responses, with the heads of streams, and at the end of RPCs."""

    def __init__(self, reports: LoadReports) -> None:
        self._reports = reports
        self.headers = reports.headers
        self.rpcs = [OrcaService(reports).claim()]

    def rpc(self, path: str, serve: ServeRpc, infers: bool) -> ServeRpc:
        return with_load(self._reports, serve) if infers else serve


def build_edge(parts: ServerParts) -> LoadEdge | None:
    """The edge, which the settings may turn off. The metrics always have the load."""
    loads, settings = parts.of(Loads), parts.settings

    async def totals() -> bytes:
        return exposition(await loads.totals(), settings.metric_aliases)

    parts.meters.more.append(totals)
    wanted = settings.load_reports
    return None if wanted == "off" else LoadEdge(LoadReports(loads, wanted == "always"))
