"""Metrics of model code's own."""

from .context import log, register
from .prometheus import configure_metrics
from .registry import REGISTRY
from .server import MetricsServer

__all__ = ["REGISTRY", "MetricsServer", "configure_metrics", "log", "register"]
