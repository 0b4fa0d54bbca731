"""The metrics, at the path that the settings name, and the load."""

from collections.abc import Sequence

from ....dataplane.access import Action
from ....dataplane.dataplane import DataPlane
from ....telemetry.metrics import CONTENT_TYPE
from ..load import exposition, load_document
from ..messages import JSON
from .base import Answer, HttpDialect, ReadClaim

TEXT = (b"content-type", CONTENT_TYPE.encode())

LOAD = "/load"
"""What follows the path of the metrics in that of the totals of the load alone."""


class MetricsRoute(HttpDialect):
    """Prometheus' text format, and the load as JSON."""

    _dataplane: DataPlane

    name = "metrics"

    def reads(self) -> Sequence[ReadClaim]:
        path = self._settings.metrics_endpoint
        claims = [ReadClaim("/v2/load", Action.METRICS, self._load)]
        if path:
            claims.append(ReadClaim(path, Action.METRICS, self._scrape))
            claims.append(ReadClaim(path.rstrip("/") + LOAD, Action.METRICS, self._totals))
        return claims

    async def _scrape(self, *_: object) -> Answer:
        status, headers, totals = await self._totals()  # first: it brings meters of all front ends up to date
        return status, headers, await self._meters.scrape() + totals

    async def _totals(self, *_: object) -> Answer:
        totals = await self._dataplane.loads.totals()
        return 200, [TEXT], exposition(totals, self._settings)

    async def _load(self, *_: object) -> Answer:
        return 200, [JSON], await load_document(self._dataplane.loads)
