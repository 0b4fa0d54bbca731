"""JSON limits according to the settings."""

from ..protos.json_checks import JsonLimits
from ..settings import Settings


def json_limits(settings: Settings) -> JsonLimits:
    """Return the limits for one request or one WebSocket message."""
    size = settings.max_body_bytes if settings.max_json_bytes is None else settings.max_json_bytes
    return JsonLimits(size, settings.max_json_depth, settings.max_json_values)
