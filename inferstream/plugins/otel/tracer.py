"""Builds the tracer of a server, if its packages are installed."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inferstream import Settings
from inferstream.errors import HINT, InvalidSettings, MissingExtra, install_command
from inferstream.ext.calls import ServerParts

from .settings import OtelSettings

if TYPE_CHECKING:
    from inferstream.plugins.otel.tracing import Tracer

logger = logging.getLogger("inferstream.tracing")


def build_tracer(parts: ServerParts) -> "Tracer | None":
    """Build the tracer, or return None if no collector is configured.

    Raises InvalidSettings if imports fail.
    """
    collector = find_collector(parts.settings)
    if collector is None or is_off("TRACES"):
        return None
    try:
        with importing("tracing_server"):
            from inferstream.plugins.otel.tracing import Tracer
    except MissingExtra as missing:
        # Helm charts of Seldon Core set this variable whether or not there is a collector.
        if parts.settings.strict or not os.environ.get("MLSERVER_TRACING_SERVER"):
            raise
        logger.warning("no traces are sent: %s", " ".join(missing.message.split()))
        parts.settings.section(OtelSettings).tracing_server = None  # for worker processes
        return None
    return Tracer(*collector)


def find_collector(settings: Settings) -> tuple[str, str, str] | None:
    """Return the trace collector, service name and service version. Returns None if tracing is off."""
    server = settings.section(OtelSettings).tracing_server
    return (server, settings.server_name, settings.server_version) if server else None


def is_off(signal: str) -> bool:
    """Whether OpenTelemetry environment variables disable the export of a signal."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return disabled or os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() == "none"


@contextmanager
def importing(setting: str) -> Iterator[None]:
    """Convert import errors of the extra to errors that name the setting."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise MissingExtra(setting, "tracing", missing) from None
    except Exception as error:
        # With an older protobuf, OpenTelemetry's generated modules raise a protobuf error.
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidSettings(
            f"{setting}: the installed OpenTelemetry cannot be imported: {type(error).__name__}: {reason}"
            f"{HINT}{install_command('tracing').replace('install', 'install --upgrade', 1)}"
        ) from None
