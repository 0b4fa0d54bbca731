"""OpenTelemetry: traces, and metrics that are pushed."""

from inferstream.ext import Extension, Position

extension = Extension(
    "otel",
    settings="inferstream.plugins.otel.settings:OtelSettings",
    stages={
        "tracing": Position("inferstream.dataplane.stages.tracing:tracing", outside="access_log"),
    },
    edges={
        "tracing": Position("inferstream.server.spans:build_edge", inside="request_ids"),
        "metrics-push": "inferstream.server.spans:build_push",
    },
    workers={
        "tracing": "inferstream.plugins.otel.worker:WorkerSpans",
    },
)
