"""Port selection with the flags of `blaze serve`."""

from inferstream.errors import InvalidSettings
from inferstream.ext.settings import ServerStart

GRPC_PORT = 50051
"""The default gRPC port of BlazeRPC clients."""

TRANSPORTS = {"grpc": "http_port", "jsonrpc": "grpc_port", "both": None}
"""For each transport, the setting of the port that can be any free port."""


def set_ports(start: ServerStart) -> None:
    """Convert `--port` and `--transport` to settings. Raises InvalidSettings for an invalid value.

    `--port` is the gRPC port for BlazeRPC apps. `--transport` selects the transport that needs a fixed port.
    """
    transport = start.flags.pop("transport", None)
    if transport not in (None, *TRANSPORTS):
        raise InvalidSettings(f'--transport "{transport}" is not grpc, jsonrpc or both')
    if start.classic:
        start.defaults["grpc_port"] = GRPC_PORT
    if transport is not None and (free := TRANSPORTS[transport]) is not None:
        start.defaults[free] = 0
    port = start.flags.pop("port", None) if start.classic else None
    if port is not None and start.flags.setdefault("grpc_port", port) != port:
        raise InvalidSettings("--port and --grpc-port are the same port here")
