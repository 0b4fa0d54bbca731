"""The server of metrics."""

from inferstream.compat.replaced import Replaced


class MetricsServer(Replaced):
    """Serves metrics."""

    instead = "the server counts calls and serves metrics"


__all__ = ["MetricsServer"]
