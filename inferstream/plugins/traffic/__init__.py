"""Traffic: shares of calls for versions, and copies of calls for shadows."""

from inferstream.ext import Extension, Position

extension = Extension(
    "traffic",
    settings="inferstream.settings.traffic:TrafficSettings",
    model_settings="inferstream.settings.traffic:VersionSettings",
    stages={
        # Of calls that are valid and that nobody has refused.
        "shadowing": Position("inferstream.dataplane.stages.shadow:shadowing", outside="caching"),
        "splitting": "inferstream.dataplane.traffic:splitting",
    },
    meters={"shadow": "inferstream.plugins.traffic.meters:ShadowMeters"},
)
