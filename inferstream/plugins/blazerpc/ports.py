"""The ports of a server as `blaze serve` chooses them."""

from inferstream.errors import InvalidSettings
from inferstream.ext.settings import ServerStart

GRPC_PORT = 50051
"""The port of gRPC where BlazeRPC's clients expect it."""

TRANSPORTS = {"grpc": "http_port", "jsonrpc": "grpc_port", "both": None}
"""Each transport, and the port that may be any free one."""


def set_ports(start: ServerStart) -> None:
    """Turn `--port` and `--transport` into settings. Raises InvalidSettings for a wrong one.

    `--port` is that of gRPC for apps of BlazeRPC, else that of REST. `--transport` is the one whose port matters.
    """
    port, transport = start.flags.pop("port", None), start.flags.pop("transport", None)
    if transport not in (None, *TRANSPORTS):
        raise InvalidSettings(f'--transport "{transport}" is not grpc, jsonrpc or both')
    if start.classic:
        start.defaults["grpc_port"] = GRPC_PORT
    if transport is not None and (free := TRANSPORTS[transport]) is not None:
        start.defaults[free] = 0
    if port is None or start.classic is None:
        return
    name = "grpc_port" if start.classic else "http_port"
    if start.flags.setdefault(name, port) != port:
        raise InvalidSettings(f"--port and --{name.replace('_', '-')} are the same port here")
