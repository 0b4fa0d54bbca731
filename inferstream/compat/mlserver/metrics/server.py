"""The server of metrics."""

from inferstream.compat.replaced import Replaced


class MetricsServer(Replaced):
    """Serves metrics."""

    instead = "mlserver.MLServer serves them"


__all__ = ["MetricsServer"]
