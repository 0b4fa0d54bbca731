"""The REST server."""

from inferstream.compat.replaced import Replaced


class RESTServer(Replaced):
    """Serves REST."""

    instead = "mlserver.MLServer serves every protocol"


__all__ = ["RESTServer"]
