"""BlazeRPC compatibility: command-line flags and replacements for its modules."""

from inferstream.ext import Extension, Flag

extension = Extension(
    "blazerpc",
    flags={
        "transport": Flag("Serve grpc, jsonrpc or both, like `blaze serve`.", after="model-name"),
    },
    starts={"blazerpc": "inferstream.plugins.blazerpc.ports:set_ports"},
    loggers=("blazerpc",),
    modules={"blazerpc": "inferstream.plugins.blazerpc.names"},
)
