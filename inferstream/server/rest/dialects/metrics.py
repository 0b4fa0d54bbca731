"""The metrics, at the path that the settings name."""

from collections.abc import Sequence

from ....dataplane.access import Action
from ....telemetry.metrics import CONTENT_TYPE
from .base import HttpDialect, ReadClaim, ReadRoute


class MetricsRoute(HttpDialect):
    """Prometheus' text format."""

    name = "metrics"

    def reads(self) -> Sequence[ReadClaim]:
        path = self._settings.metrics_endpoint
        return (
            [ReadClaim(path, Action.METRICS, self._scrape, content_type=CONTENT_TYPE.encode())]
            if path
            else []
        )

    async def _scrape(self, _: ReadRoute) -> tuple[int, bytes]:
        return 200, await self._meters.scrape()
