"""Settings of traces and pushed metrics."""

from pydantic import Field

from inferstream.ext.settings import Section


class OtelSettings(Section):
    """OTLP collectors of traces and metrics, and the push interval."""

    tracing_server: str | None = None
    """Your OTLP/gRPC collector for traces. Requires the extra `tracing`."""

    metrics_push_server: str | None = None
    """Your OTLP/gRPC collector for the counts and durations of calls. Requires the extra `tracing`."""

    metrics_push_interval: float = Field(default=60.0, gt=0)
    """Seconds between two pushes of metrics."""
