"""Server-sent events as bytes (WHATWG HTML, "Server-sent events")."""

HEARTBEAT = b": \n\n"
"""A comment. It keeps proxies from closing an idle stream; clients ignore it."""


def event(payload: bytes) -> bytes:
    """One `data:` event. `payload` is compact JSON, which contains no raw newline."""
    return b"data: " + payload + b"\n\n"


def named_event(name: str, payload: bytes) -> bytes:
    """An event with a name of its own. `payload` is compact JSON."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), payload)
