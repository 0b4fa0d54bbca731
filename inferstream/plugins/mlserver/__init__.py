"""MLServer: the names of its modules."""

from inferstream.ext import Extension

extension = Extension(
    "mlserver",
    requires=["cloudevents", "frameworks", "tools"],
    commands={"alias": "inferstream.cli.alias:alias"},
    loggers=("mlserver",),
    modules={"mlserver": "inferstream.compat.names"},
)
