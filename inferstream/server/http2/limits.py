"""The limits of a connection."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Http2Limits:
    """The limits of a connection. Sizes are in bytes and times in seconds. None means no limit."""

    max_streams: int = 4096
    """Maximum number of concurrent requests."""
    max_header_list: int = 16 * 1024
    """Size of a request's head, calculated as in RFC 9113, section 6.5.2."""
    max_frame: int = 1024 * 1024
    """Payload size of a DATA frame."""
    stream_window: int = 4 * 2**20
    """Bytes of one body that a client may send ahead of the receiver."""
    connection_window: int = 16 * 2**20
    """Bytes of all bodies that a client may send before the server reads them."""
    max_held: int = 64 * 2**20
    """Bytes of all bodies that receivers have not consumed.

    Above this, the connection's window stays closed.
    """
    max_unsent: int = 256 * 1024
    """Bytes that the transport buffers for a client that does not read, before senders wait."""
    max_unsent_control: int = 256 * 1024
    """Bytes of PING and SETTINGS replies (and similar frames) buffered for a client that does not read."""

    preface_timeout: float = 10.0
    """Timeout for the client's preface and first SETTINGS."""
    settings_timeout: float = 20.0
    """Timeout for the acknowledgement of the server's SETTINGS."""
    header_timeout: float = 10.0
    """Timeout for an incomplete frame or header block."""
    body_timeout: float = 60.0
    """Timeout for data that a receiver waits for. Each received byte extends it by 1 / `slowest_rate`."""
    slowest_rate: float = 16 * 1024
    """Bytes per second below which a client is too slow."""
    stall_timeout: float | None = 60.0
    """How long a client may pause reading a response."""

    min_ping_interval: float = 5.0
    """Minimum time between PINGs from a client while the server sends nothing."""
    max_ping_strikes: int | None = 2
    """Number of PINGs that may arrive too early."""
    permit_pings_without_streams: bool = True
    """Whether a client without requests in progress may send PINGs."""

    keepalive_time: float | None = 7200.0
    """Time without data from the client after which the server sends a PING."""
    keepalive_timeout: float | None = 20.0
    """How long the server then waits for data from the client."""
    max_idle: float | None = None
    """Time without requests after which the server closes the connection."""
    max_age: float | None = None
    """Age after which the server closes a connection. It varies by ±10% between connections."""
    max_age_grace: float | None = None
    """Additional time for the requests of a connection that has reached its maximum age."""
