"""The metrics, at the path that the settings name, and the load."""

from collections.abc import Sequence

from ....dataplane.access import Action
from ....telemetry.metrics import CONTENT_TYPE
from ..load import exposition, load_document
from .base import HttpDialect, ReadClaim, ReadRoute

LOAD = "/load"
"""What follows the path of the metrics in that of the totals of the load alone."""


class MetricsRoute(HttpDialect):
    """Prometheus' text format, and the load as JSON."""

    name = "metrics"

    def reads(self) -> Sequence[ReadClaim]:
        path = self._settings.metrics_endpoint
        claims = [ReadClaim("/v2/load", Action.METRICS, self._load)]
        if path:
            text = CONTENT_TYPE.encode()
            claims.append(ReadClaim(path, Action.METRICS, self._scrape, content_type=text))
            claims.append(ReadClaim(path.rstrip("/") + LOAD, Action.METRICS, self._totals, content_type=text))
        return claims

    async def _scrape(self, route: ReadRoute) -> tuple[int, bytes]:
        _, totals = await self._totals(route)  # first, because it brings meters of all front ends up to date
        return 200, await self._meters.scrape() + totals

    async def _totals(self, _: ReadRoute) -> tuple[int, bytes]:
        return 200, exposition(await self._dataplane.loads.totals(), self._settings.metric_aliases)

    async def _load(self, _: ReadRoute) -> tuple[int, bytes]:
        return 200, await load_document(self._dataplane.loads)
