"""Server-sent events as bytes (WHATWG HTML, "Server-sent events")."""

HEARTBEAT = b": \n\n"
"""A comment: keeps proxies from closing an idle stream, and every client ignores it."""


def event(payload: bytes) -> bytes:
    """One `data:` event. `payload` is compact JSON, which holds no raw newline."""
    return b"data: " + payload + b"\n\n"
