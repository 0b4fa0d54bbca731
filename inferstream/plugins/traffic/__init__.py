"""Traffic: shares of calls for versions, and copies of calls for shadows."""

from inferstream.ext import Extension

extension = Extension(
    "traffic",
    settings="inferstream.settings.traffic:TrafficSettings",
    model_settings="inferstream.settings.traffic:VersionSettings",
)
