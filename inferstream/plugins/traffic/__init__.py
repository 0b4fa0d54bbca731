"""Traffic: versions of a model that share its calls, and copies of calls for the next version."""

from inferstream.ext import Extension, Position

extension = Extension(
    "traffic",
    stages={
        # Of calls that are valid and that nobody has refused.
        "shadowing": Position("inferstream.dataplane.stages.shadow:shadowing", outside="caching"),
        "splitting": "inferstream.dataplane.traffic:splitting",
    },
)
