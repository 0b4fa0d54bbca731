"""What prepares a process for metrics."""

from inferstream import Settings


def configure_metrics(settings: Settings) -> None:
    """Nothing is left to prepare: metrics of worker processes reach the server."""


__all__ = ["configure_metrics"]
