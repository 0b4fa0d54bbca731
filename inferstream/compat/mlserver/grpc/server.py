"""The gRPC server."""

from inferstream.compat.replaced import Replaced


class GRPCServer(Replaced):
    """Serves gRPC."""

    instead = "mlserver.MLServer serves every protocol"


__all__ = ["GRPCServer"]
