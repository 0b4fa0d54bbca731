"""Makes the tracer."""

from typing import TYPE_CHECKING

from ..errors import InvalidSettings
from ..settings import Settings

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracer


def build_tracing(settings: Settings) -> "Tracer | None":
    """The tracer, or None if the settings name no collector. Raises InvalidSettings if the extra cannot be imported."""
    if settings.tracing is None:
        return None
    try:
        from ..telemetry.tracing import Tracer
    except ModuleNotFoundError as missing:
        raise InvalidSettings(
            f'tracing_server needs `pip install "inferstream[tracing]"`: {missing.name} is not installed'
        ) from None
    except Exception as error:
        # OpenTelemetry's generated modules refuse an older protobuf with an error of protobuf's own type.
        reason = str(error).partition("\n")[0]
        raise InvalidSettings(
            "tracing_server: the installed OpenTelemetry cannot be imported, "
            f'`pip install --upgrade "inferstream[tracing]"` may help: {type(error).__name__}: {reason}'
        ) from None
    return Tracer(*settings.tracing)
