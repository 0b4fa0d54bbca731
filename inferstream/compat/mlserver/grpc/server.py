"""The gRPC server."""

from inferstream.compat.machinery import stand_ins
from inferstream.compat.replaced import Replaced


class GRPCServer(Replaced):
    """Serves gRPC."""

    instead = "mlserver.MLServer serves every protocol"


__getattr__ = stand_ins(__name__)

__all__ = ["GRPCServer"]
