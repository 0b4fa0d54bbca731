"""Meters of the bytes in flight, and the error for a request that exceeds their limit."""

from ..concurrency.inflight import InflightBytes, NoRoom
from ..errors import Code, ModelError, Overloaded
from .meter_set import Single, counter, gauge


class InflightExceeded(Overloaded, ModelError, NoRoom):
    """A request exceeds the limit of bytes in flight.

    The status is 503, because the limit applies to the server, not to the queue of a model.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The requests in flight take the {limit} bytes that they may (setting max_inflight_bytes); try again."
        )
        self.status_code = 503
        self.code = Code.OVERLOADED


class InflightMeters(Single):
    """Bytes in flight in this process."""

    held = gauge(
        "inferstream_inflight_bytes",
        "Bytes of large request bodies in progress, and of tensors in queues",
        read=lambda self: self.bytes.held,
    )
    refused = counter(
        "inferstream_inflight_refused",
        "Requests rejected because of max_inflight_bytes",
        read=lambda self: self.bytes.refused,
    )

    def __init__(self) -> None:
        super().__init__()
        self.bytes = InflightBytes(refuse=InflightExceeded)
