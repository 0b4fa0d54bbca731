"""Server-sent events."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..protos.sse import CONTENT_TYPE as CONTENT_TYPE
    from ..protos.sse import EVENT as EVENT
    from ..protos.sse import HEARTBEAT as HEARTBEAT
    from ..protos.sse import LINE_ENDS as LINE_ENDS
    from ..protos.sse import MEDIA_TYPE as MEDIA_TYPE
    from ..protos.sse import RESERVED as RESERVED
    from ..protos.sse import escape_line_ends as escape_line_ends
    from ..protos.sse import event as event
    from ..protos.sse import is_name as is_name
    from ..protos.sse import named_event as named_event
    from ..protos.sse import response_event as response_event

__all__ = [
    "CONTENT_TYPE",
    "EVENT",
    "HEARTBEAT",
    "LINE_ENDS",
    "MEDIA_TYPE",
    "RESERVED",
    "escape_line_ends",
    "event",
    "is_name",
    "named_event",
    "response_event",
]

_NAMES = {
    "protos.sse": "EVENT MEDIA_TYPE RESERVED CONTENT_TYPE HEARTBEAT LINE_ENDS escape_line_ends "
    "event named_event is_name response_event",
}

__getattr__ = export(__name__, _NAMES)
