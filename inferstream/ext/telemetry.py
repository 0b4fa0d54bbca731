"""Metrics, logs and what must not be in them."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..telemetry.console import StatusLine as StatusLine
    from ..telemetry.context import get_logger as get_logger
    from ..telemetry.ends import kind_of_end as kind_of_end
    from ..telemetry.lines import LineFile as LineFile
    from ..telemetry.masks import without_keys as mask_keys
    from ..telemetry.meter_set import MeterSet as MeterSet
    from ..telemetry.meter_set import counter as counter
    from ..telemetry.metrics import Meters as Meters

__all__ = [
    "LineFile",
    "MeterSet",
    "Meters",
    "StatusLine",
    "counter",
    "get_logger",
    "kind_of_end",
    "mask_keys",
]

_NAMES = {
    "telemetry.console": "StatusLine",
    "telemetry.context": "get_logger",
    "telemetry.ends": "kind_of_end",
    "telemetry.lines": "LineFile",
    "telemetry.masks": "without_keys=mask_keys",
    "telemetry.meter_set": "MeterSet counter",
    "telemetry.metrics": "Meters",
}

__getattr__ = export(__name__, _NAMES)
