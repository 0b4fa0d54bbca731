"""The limits of JSON that the settings set, for each transport and for what requests hold."""

from ..protos.json_checks import JsonLimits
from ..settings import Settings


def json_limits(settings: Settings) -> JsonLimits:
    """The limits of one request, or of one message of a WebSocket."""
    size = settings.max_body_bytes if settings.max_json_bytes is None else settings.max_json_bytes
    return JsonLimits(size, settings.max_json_depth, settings.max_json_values)
