"""BlazeRPC: the names of its modules."""

from inferstream.ext import Extension

extension = Extension(
    "blazerpc",
    loggers=("blazerpc",),
    modules={"blazerpc": "inferstream.compat.blazerpc_names"},
)
