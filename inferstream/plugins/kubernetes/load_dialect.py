"""HTTP routes for the load, for endpoint pickers and autoscalers."""

from collections.abc import Sequence

from prometheus_client import CONTENT_TYPE_LATEST

from inferstream.ext.calls import Action
from inferstream.ext.http import JSON_HEADER, Answer, HttpDialect, ReadClaim
from inferstream.plugins.kubernetes.load import Loads
from inferstream.plugins.kubernetes.load_headers import exposition, load_document

TEXT = (b"content-type", CONTENT_TYPE_LATEST.encode())

LOAD = "/load"
"""The path of the load totals, appended to the path of the metrics."""


class LoadRoutes(HttpDialect):
    """Routes that return the load as Prometheus text or as JSON."""

    name = "load"
    of_metrics = True

    def reads(self) -> Sequence[ReadClaim]:
        claims = [ReadClaim("/v2/load", Action.METRICS, self._load)]
        if path := self._settings.metrics_endpoint:
            claims.append(ReadClaim(path.rstrip("/") + LOAD, Action.METRICS, self._totals))
        return claims

    async def _totals(self, *_: object) -> Answer:
        totals = await self._dataplane.of(Loads).totals()
        return 200, [TEXT], exposition(totals, self._settings)

    async def _load(self, *_: object) -> Answer:
        return 200, [JSON_HEADER], await load_document(self._dataplane.of(Loads))
