"""Server-sent events as bytes (WHATWG HTML, "Server-sent events")."""

import re
from typing import TypeGuard

from ..types import Parameters

EVENT = "event"
"""The response parameter with the event name."""

MEDIA_TYPE = "media_type"
"""The response parameter with the media type of the output's bytes."""

RESERVED = ("error", "end", "message")
"""Event names that models cannot use: names of server events, and `message`, the default name."""

_NAME = re.compile(r"\w[\w.:/-]{0,63}", re.ASCII)

CONTENT_TYPE = b"text/event-stream; charset=utf-8"

HEARTBEAT = b": \n\n"
"""A comment, which clients ignore. It keeps proxies from closing an idle stream."""


LINE_ENDS = {end.encode(): b"\\u%04x" % ord(end) for end in "\u0085\u2028\u2029"}
"""Line ends of `str.splitlines` other than line feeds, with their JSON escapes.

Many clients split streams with `str.splitlines`.
"""


def escape_line_ends(events: bytes) -> bytes:
    """Escape characters, in events or JSON lines, that some clients treat as line ends."""
    for end, escape in LINE_ENDS.items():
        events = events.replace(end, escape)
    return events


def event(payload: bytes) -> bytes:
    """Return one `data:` event. `payload` is compact JSON, which contains no raw newline."""
    return b"data: " + payload + b"\n\n"


def named_event(name: str, payload: bytes) -> bytes:
    """Return an event with a name. `payload` is compact JSON."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), payload)


def is_name(name: object) -> TypeGuard[str]:
    """Whether a model may use this event name."""
    return isinstance(name, str) and name not in RESERVED and _NAME.fullmatch(name) is not None


def response_event(parameters: Parameters | None, payload: bytes) -> bytes:
    """Return the event of a response, named according to its parameters. `payload` is compact JSON."""
    extra = None if parameters is None else parameters.__pydantic_extra__
    if extra:
        name = extra.get(EVENT)
        if is_name(name):
            return named_event(name, payload)
    return event(payload)
