"""The flags of `server start` that are no settings: those of `blaze serve`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import InvalidSettings

BLAZERPC_PORT = 50051
"""The port of gRPC where BlazeRPC's clients expect it."""

TRANSPORTS = {"grpc": "http_port", "jsonrpc": "grpc_port", "both": None}
"""Each transport, and the port that is any free one if nothing else is said."""


class Flags(NamedTuple):
    """`port` is that of gRPC for apps of BlazeRPC, else that of REST. `transport` is the one whose port matters."""

    settings: Mapping[str, Any]
    port: int | None = None
    transport: str | None = None

    def of_target(self, classic: bool) -> dict[str, Any]:
        """The settings that the flags mean for a target. Raises InvalidSettings."""
        found = {name: value for name, value in self.settings.items() if value is not None}
        if self.transport is not None and self.transport not in TRANSPORTS:
            raise InvalidSettings(f'--transport "{self.transport}" is not grpc, jsonrpc or both')
        if self.port is not None:
            name = "grpc_port" if classic else "http_port"
            if found.setdefault(name, self.port) != self.port:
                raise InvalidSettings(f"--port and --{name.replace('_', '-')} are the same port here")
        free = TRANSPORTS[self.transport] if self.transport else None
        if free is not None:
            found.setdefault(free, 0)
        return found
