"""Metrics, logs and the masking of credentials."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..telemetry.background import BackgroundWriter as BackgroundWriter
    from ..telemetry.console import AccessFormatter as AccessFormatter
    from ..telemetry.console import StatusLine as StatusLine
    from ..telemetry.context import get_logger as get_logger
    from ..telemetry.context import model_var as model_var
    from ..telemetry.ends import kind_of_end as kind_of_end
    from ..telemetry.lines import LineFile as LineFile
    from ..telemetry.logs import LogFormatter as LogFormatter
    from ..telemetry.masks import CredentialMask as CredentialMask
    from ..telemetry.masks import mask_keys as mask_keys
    from ..telemetry.meter_set import MeterSet as MeterSet
    from ..telemetry.meter_set import counter as counter
    from ..telemetry.metrics import Meters as Meters

__all__ = [
    "AccessFormatter",
    "BackgroundWriter",
    "CredentialMask",
    "LineFile",
    "LogFormatter",
    "MeterSet",
    "Meters",
    "StatusLine",
    "counter",
    "get_logger",
    "kind_of_end",
    "mask_keys",
    "model_var",
]

_NAMES = {
    "telemetry.background": "BackgroundWriter",
    "telemetry.console": "AccessFormatter StatusLine",
    "telemetry.context": "get_logger model_var",
    "telemetry.ends": "kind_of_end",
    "telemetry.lines": "LineFile",
    "telemetry.logs": "LogFormatter",
    "telemetry.masks": "CredentialMask mask_keys",
    "telemetry.meter_set": "MeterSet counter",
    "telemetry.metrics": "Meters",
}

__getattr__ = export(__name__, _NAMES)
