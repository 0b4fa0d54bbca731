"""Builds the edges that export traces and metrics, if their packages are installed."""

from typing import TYPE_CHECKING

from inferstream.ext.calls import ServerParts

from .settings import OtelSettings
from .tracer import build_tracer, importing, is_off

if TYPE_CHECKING:
    from .edge import SpanEdge
    from .push import MetricPush


def build_edge(parts: ServerParts) -> "SpanEdge | None":
    """Build the edge that creates spans for requests, or return None if tracing is off."""
    tracer = parts.of(build_tracer)
    if tracer is None:
        return None
    from .edge import SpanEdge  # Imported lazily: few servers trace.

    return SpanEdge(tracer)


def build_push(parts: ServerParts) -> "MetricPush | None":
    """Build the edge that pushes metrics, or return None if no collector is configured.

    Raises InvalidSettings.
    """
    settings, push = parts.settings, parts.settings.section(OtelSettings)
    endpoint = push.metrics_push_server
    if not endpoint or is_off("METRICS"):
        return None
    with importing("metrics_push_server"):
        from .push import MetricPush
    return MetricPush(
        parts.meters, endpoint, settings.server_name, settings.server_version, push.metrics_push_interval
    )
