"""Settings of traces, and of metrics that are pushed."""

from pydantic import Field

from inferstream.ext.settings import Section


class OtelSettings(Section):
    """Where traces are sent, where metrics are pushed, and how often."""

    tracing_server: str | None = None
    """OTLP/gRPC collector of traces; needs the extra `tracing`."""

    metrics_push_server: str | None = None
    """OTLP/gRPC collector that gets counts and durations of calls; needs the extra `tracing`."""

    metrics_push_interval: float = Field(default=60.0, gt=0)
    """Seconds between two pushes of metrics."""
