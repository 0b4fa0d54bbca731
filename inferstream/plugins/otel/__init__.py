"""OpenTelemetry: traces, and metrics that are pushed."""

from inferstream.ext import Extension

extension = Extension(
    "otel",
    settings="inferstream.plugins.otel.settings:PushSettings",
)
