"""What prepares a process for metrics."""

from inferstream import Settings
from inferstream.compat.machinery import stand_ins

PROMETHEUS_MULTIPROC_DIR = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client knows the folder that processes share."""


def configure_metrics(settings: Settings) -> None:
    """Nothing is left to prepare: metrics of worker processes reach the server."""


__getattr__ = stand_ins(__name__)

__all__ = ["PROMETHEUS_MULTIPROC_DIR", "configure_metrics"]
