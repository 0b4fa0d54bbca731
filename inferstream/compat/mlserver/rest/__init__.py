"""The REST server."""

from .server import RESTServer

__all__ = ["RESTServer"]
