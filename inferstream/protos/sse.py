"""Server-sent events as bytes (WHATWG HTML, "Server-sent events")."""

import re
from typing import TypeGuard

from ..types import Parameters

EVENT = "event"
"""The parameter of a response that names its event."""

MEDIA_TYPE = "media_type"
"""The parameter of a response that says what the bytes of its output are."""

RESERVED = ("error", "end", "message")
"""Names of events that the server sends, and the name of those without one."""

_NAME = re.compile(r"\w[\w.:/-]{0,63}", re.ASCII)

CONTENT_TYPE = b"text/event-stream; charset=utf-8"

HEARTBEAT = b": \n\n"
"""A comment. It keeps proxies from closing an idle stream; clients ignore it."""


LINE_ENDS = {end.encode(): b"\\u%04x" % ord(end) for end in "\u0085\u2028\u2029"}
"""Characters that end a line for `str.splitlines`, by which many clients read streams, and their escapes in JSON."""


def escape_line_ends(events: bytes) -> bytes:
    """Events, or lines of JSON, in which only line feeds end a line."""
    for end, escape in LINE_ENDS.items():
        events = events.replace(end, escape)
    return events


def event(payload: bytes) -> bytes:
    """One `data:` event. `payload` is compact JSON, which contains no raw newline."""
    return b"data: " + payload + b"\n\n"


def named_event(name: str, payload: bytes) -> bytes:
    """An event with a name of its own. `payload` is compact JSON."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), payload)


def is_name(name: object) -> TypeGuard[str]:
    """Whether a model may give its events this name."""
    return isinstance(name, str) and name not in RESERVED and _NAME.fullmatch(name) is not None


def response_event(parameters: Parameters | None, payload: bytes) -> bytes:
    """The event of a response, with the name that its parameters give, if any. `payload` is compact JSON."""
    extra = None if parameters is None else parameters.__pydantic_extra__
    if extra:
        name = extra.get(EVENT)
        if is_name(name):
            return named_event(name, payload)
    return event(payload)
