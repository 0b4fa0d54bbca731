"""Makes the tracer of a server, from packages that may not be installed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inferstream import Settings
from inferstream.errors import InvalidSettings, MissingExtra
from inferstream.ext.calls import ServerParts

from .settings import OtelSettings

if TYPE_CHECKING:
    from inferstream.telemetry.tracing import Tracer


def build_tracer(parts: ServerParts) -> "Tracer | None":
    """The tracer, or None if the settings name no collector. Raises InvalidSettings if the extra cannot be imported."""
    collector = collector_of(parts.settings)
    if collector is None or is_off("TRACES"):
        return None
    with importing("tracing_server"):
        from inferstream.telemetry.tracing import Tracer
    return Tracer(*collector)


def collector_of(settings: Settings) -> tuple[str, str, str] | None:
    """Collector of traces, service name and service version; None if tracing is off."""
    server = settings.section(OtelSettings).tracing_server
    return (server, settings.server_name, settings.server_version) if server else None


def is_off(signal: str) -> bool:
    """Whether variables of OpenTelemetry turn the export of a signal off."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return disabled or os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() == "none"


@contextmanager
def importing(setting: str) -> Iterator[None]:
    """Name the setting that needs an extra, if the extra cannot be imported."""
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
