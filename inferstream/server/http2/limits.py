"""Bounds of one connection."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Http2Limits:
    """Bounds on a connection. Sizes are in bytes, times in seconds; None is no bound."""

    max_streams: int = 4096
    """Requests in progress."""
    max_header_list: int = 16 * 1024
    """Size of a request's head, counted as in RFC 9113 section 6.5.2."""
    max_frame: int = 1024 * 1024
    """Payload of a DATA frame."""
    stream_window: int = 4 * 2**20
    """Bytes of one body that a client may send ahead of its receiver."""
    connection_window: int = 16 * 2**20
    """Bytes of all bodies that a client may send before the server reads them."""
    max_held: int = 64 * 2**20
    """Bytes of all bodies that receivers keep unread; beyond these the connection's window stays closed."""
    max_unsent: int = 256 * 1024
    """Bytes that the transport may keep for a client that does not read, before senders wait."""
    max_unsent_control: int = 256 * 1024
    """Bytes of responses to PING, SETTINGS and the like for a client that does not read."""

    preface_timeout: float = 10.0
    """Time to the client's preface and first SETTINGS."""
    settings_timeout: float = 20.0
    """Time to the acknowledgement of the server's SETTINGS."""
    header_timeout: float = 10.0
    """Time to the end of a frame or a header block that has begun."""
    body_timeout: float = 60.0
    """Time to the end of what a receiver waits for, beside what the size adds at `slowest_rate`."""
    slowest_rate: float = 16 * 1024
    """Bytes per second below which a client is too slow."""
    stall_timeout: float | None = 60.0
    """Time for which a client may leave a sender without progress."""

    min_ping_interval: float = 5.0
    """Time between two PINGs of a client while the server sends nothing."""
    max_ping_strikes: int | None = 2
    """PINGs that may come too early."""
    permit_pings_without_streams: bool = True
    """Whether a client may send PINGs while it has no request in progress."""

    keepalive_time: float | None = 7200.0
    """Time without any byte from the client after which the server sends a PING."""
    keepalive_timeout: float | None = 20.0
    """Time to any byte after that PING."""
    max_idle: float | None = None
    """Time without requests after which the server closes the connection."""
    max_age: float | None = None
    """Age at which the server closes a connection, spread by a tenth."""
    max_age_grace: float | None = None
    """Further time for the requests of a connection that has this age."""
