"""MLServer: the names of its modules."""

from inferstream.ext import Extension

extension = Extension(
    "mlserver",
    requires=["cloudevents"],
    modules={"mlserver": "inferstream.compat.names"},
)
