"""What makes spans, where the settings name a collector."""

from typing import TYPE_CHECKING

from ..errors import InvalidSettings
from ..settings import Settings

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracer


def build_tracing(settings: Settings) -> "Tracer | None":
    """What makes spans, where the settings name a collector. Raises InvalidSettings if the extra cannot be used."""
    if settings.tracing is None:
        return None
    try:
        from ..telemetry.tracing import Tracer
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            f'tracing_server needs `pip install "inferstream[tracing]"`: {missing.name} is not installed'
        ) from None
    except Exception as error:
        # OpenTelemetry's generated modules refuse a protobuf that is older than they are, with an error of protobuf's.
        reason = str(error).partition("\n")[0]
        raise InvalidSettings(
            "tracing_server: the installed OpenTelemetry cannot be imported, "
            f'`pip install --upgrade "inferstream[tracing]"` may help: {type(error).__name__}: {reason}'
        ) from None
    return Tracer(*settings.tracing)
