"""Traffic management: canary releases with a share of calls, and shadow releases with copies of calls."""

from inferstream.ext import Extension, Position

extension = Extension(
    "traffic",
    settings="inferstream.plugins.traffic.settings:TrafficSettings",
    model_settings="inferstream.plugins.traffic.settings:VersionSettings",
    stages={
        # Only valid and admitted calls are copied.
        "shadowing": Position("inferstream.plugins.traffic.shadow_stage:copy_calls", outside="caching"),
        "splitting": "inferstream.plugins.traffic.routing:split_calls",
    },
    meters={"shadow": "inferstream.plugins.traffic.meters:ShadowMeters"},
)
