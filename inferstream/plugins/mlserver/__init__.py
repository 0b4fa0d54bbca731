"""MLServer: the names of its modules."""

from inferstream.ext import Extension

extension = Extension(
    "mlserver",
    modules={"mlserver": "inferstream.compat.names"},
)
