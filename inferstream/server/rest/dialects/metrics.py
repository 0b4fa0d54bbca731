"""The metrics endpoint."""

from collections.abc import Sequence

from ....dataplane.access import Action
from ....dataplane.dataplane import DataPlane
from ....telemetry.metrics import CONTENT_TYPE
from .base import Answer, HttpDialect, ReadClaim

TEXT = (b"content-type", CONTENT_TYPE.encode())


class MetricsRoute(HttpDialect):
    """Metrics in the Prometheus text format, at the path in the setting `metrics_endpoint`."""

    _dataplane: DataPlane

    name = "metrics"
    of_metrics = True

    def reads(self) -> Sequence[ReadClaim]:
        path = self._settings.metrics_endpoint
        return [ReadClaim(path, Action.METRICS, self._scrape)] if path else []

    async def _scrape(self, *_: object) -> Answer:
        # Called first, because it updates the meters of all front-end processes.
        more = [await text() for text in self._meters.more]
        return 200, [TEXT], b"".join((await self._meters.scrape(), *more))
