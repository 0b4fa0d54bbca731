"""Server-sent events."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..protos.sse import CONTENT_TYPE as CONTENT_TYPE
    from ..protos.sse import HEARTBEAT as HEARTBEAT
    from ..protos.sse import event as event
    from ..protos.sse import named_event as named_event

__all__ = [
    "CONTENT_TYPE",
    "HEARTBEAT",
    "event",
    "named_event",
]

_NAMES = {
    "protos.sse": "CONTENT_TYPE HEARTBEAT event named_event",
}

__getattr__ = export(__name__, _NAMES)
