"""Makes what sends traces and metrics to collectors, from packages that may not be installed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inferstream import Settings
from inferstream.plugins.otel.settings import PushSettings

from ..errors import InvalidSettings, MissingExtra

if TYPE_CHECKING:
    from inferstream.ext.telemetry import Meters

    from ..telemetry.push import MetricPush
    from ..telemetry.tracing import Tracer
    from .spans_edge import SpanEdge


def build_tracing(settings: Settings) -> "Tracer | None":
    """The tracer, or None if the settings name no collector. Raises InvalidSettings if the extra cannot be imported."""
    if settings.tracing is None or _is_off("TRACES"):
        return None
    with _importing("tracing_server"):
        from ..telemetry.tracing import Tracer
    return Tracer(*settings.tracing)


def build_edge(tracer: "Tracer | None") -> "SpanEdge | None":
    """What puts spans around requests, if there is a tracer."""
    if tracer is None:
        return None
    from .spans_edge import SpanEdge  # late: it imports the RPCs

    return SpanEdge(tracer)


def build_push(settings: Settings, meters: "Meters") -> "MetricPush | None":
    """What pushes these meters, or None if the settings name no collector. Raises InvalidSettings as for traces."""
    push = settings.section(PushSettings)
    endpoint = push.metrics_push_server
    if not endpoint or _is_off("METRICS"):
        return None
    with _importing("metrics_push_server"):
        from ..telemetry.push import MetricPush
    return MetricPush(
        meters, endpoint, settings.server_name, settings.server_version, push.metrics_push_interval
    )


def _is_off(signal: str) -> bool:
    """Whether variables of OpenTelemetry turn the export of a signal off."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return disabled or os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() == "none"


@contextmanager
def _importing(setting: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        raise MissingExtra(setting, "tracing", missing) from None
    except Exception as error:
        # OpenTelemetry's generated modules refuse an older protobuf with an error of protobuf's own type.
        reason = str(error).partition("\n")[0]
        raise InvalidSettings(
            f"{setting}: the installed OpenTelemetry cannot be imported, "
            f'`pip install --upgrade "inferstream[tracing]"` may help: {type(error).__name__}: {reason}'
        ) from None
