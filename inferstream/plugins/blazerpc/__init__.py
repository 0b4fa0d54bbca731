"""BlazeRPC: the flags of its command, and the names of its modules."""

from inferstream.ext import Extension, Flag

extension = Extension(
    "blazerpc",
    flags={
        "port": Flag(
            "Port of gRPC for an app of BlazeRPC, else the same as --http-port.", int, after="metrics-port"
        ),
        "transport": Flag(
            "grpc, jsonrpc or both, as of `blaze serve`: the other has any free port.", after="port"
        ),
    },
    starts={"blazerpc": "inferstream.plugins.blazerpc.ports:set_ports"},
    loggers=("blazerpc",),
    modules={"blazerpc": "inferstream.compat.blazerpc_names"},
)
