"""OpenTelemetry: traces and pushed metrics. Also the times of single requests."""

from inferstream.ext import Extension, Position

extension = Extension(
    "otel",
    settings="inferstream.plugins.otel.settings:OtelSettings",
    stages={
        "tracing": Position("inferstream.plugins.otel.stage:tracing", outside="access_log"),
        "timing": Position("inferstream.plugins.otel.timing:timing", inside="caching"),
    },
    edges={
        "tracing": Position("inferstream.plugins.otel.spans:build_edge", inside="request_ids"),
        "timing": "inferstream.plugins.otel.timing:build_edge",
        "metrics-push": "inferstream.plugins.otel.spans:build_push",
    },
    workers={
        "tracing": "inferstream.plugins.otel.worker:WorkerSpans",
    },
)
