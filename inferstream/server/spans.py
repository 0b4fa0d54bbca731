"""Makes the edges that send traces and metrics to collectors, from packages that may not be installed."""

from typing import TYPE_CHECKING

from inferstream.ext.calls import ServerParts
from inferstream.plugins.otel.settings import OtelSettings
from inferstream.plugins.otel.tracer import build_tracer, importing, is_off

if TYPE_CHECKING:
    from ..telemetry.push import MetricPush
    from .spans_edge import SpanEdge


def build_edge(parts: ServerParts) -> "SpanEdge | None":
    """What puts spans around requests, if there is a tracer."""
    tracer = parts.of(build_tracer)
    if tracer is None:
        return None
    from .spans_edge import SpanEdge  # late: few servers trace

    return SpanEdge(tracer)


def build_push(parts: ServerParts) -> "MetricPush | None":
    """What pushes the meters, or None if the settings name no collector. Raises InvalidSettings as for traces."""
    settings, push = parts.settings, parts.settings.section(OtelSettings)
    endpoint = push.metrics_push_server
    if not endpoint or is_off("METRICS"):
        return None
    with importing("metrics_push_server"):
        from ..telemetry.push import MetricPush
    return MetricPush(
        parts.meters, endpoint, settings.server_name, settings.server_version, push.metrics_push_interval
    )
