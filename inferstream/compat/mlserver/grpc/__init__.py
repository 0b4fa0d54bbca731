"""The gRPC server and its clients."""

from .server import GRPCServer

__all__ = ["GRPCServer"]
