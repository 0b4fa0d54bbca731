"""Exports the metrics of a replica as Ray metrics, so that one scrape includes all replicas."""

import asyncio
from collections.abc import Iterable
from typing import Any

from inferstream.ext.telemetry import Meters
from inferstream.plugins.kubernetes.load import Loads
from inferstream.plugins.kubernetes.load_headers import TOTALS

INTERVAL = 5.0
"""Seconds between two exports. Ray reports every 10 seconds."""

OF_THE_PROCESS = ("process_", "python_")
"""Prefixes of process metrics, which Ray exports itself."""


class Numbers:
    """Copies each series to a Ray gauge with the same name and labels.

    Ray adds the prefix `ray_` and the replica.
    """

    def __init__(self, meters: Meters, loads: Loads) -> None:
        self._meters = meters
        self._loads = loads
        self._gauges: dict[str, Any] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            self.copy()
            await asyncio.sleep(INTERVAL)

    def copy(self) -> None:
        load, _ = self._loads.recent()
        for (name, help), value in zip(TOTALS, load.total, strict=True):
            self._set(name, help, {}, value)
        for family in self._meters.families():
            if not family.name.startswith(OF_THE_PROCESS):
                for sample in family.samples:
                    self._set(sample.name, family.documentation, sample.labels, sample.value)

    def _set(self, name: str, help: str, labels: dict[str, str], value: float) -> None:
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = self._gauges[name] = _gauge(name, help, labels)
        gauge.set(value, tags=labels)


def _gauge(name: str, help: str, labels: Iterable[str]) -> Any:
    from ray.serve.metrics import Gauge

    return Gauge(name, description=help, tag_keys=tuple(labels))
