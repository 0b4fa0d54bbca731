"""The meter of the requests in flight, and the error of one that has no room."""

from ..concurrency.inflight import InflightBytes, NoRoom
from ..errors import Code, ModelError, Overloaded
from .meter_set import Single, counter, gauge


class InflightExceeded(Overloaded, ModelError, NoRoom):
    """A request has no room beside those in flight: status 503, because no queue of a model is full."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The requests in flight take the {limit} bytes that they may (setting max_inflight_bytes); try again."
        )
        self.status_code = 503
        self.code = Code.OVERLOADED


class InflightMeters(Single):
    """The bytes of this process."""

    held = gauge(
        "inferstream_inflight_bytes",
        "Bytes of large bodies in flight, and of tensors that wait",
        read=lambda self: self.bytes.held,
    )
    refused = counter(
        "inferstream_inflight_refused",
        "Requests refused because of max_inflight_bytes",
        read=lambda self: self.bytes.refused,
    )

    def __init__(self) -> None:
        super().__init__()
        self.bytes = InflightBytes(refuse=InflightExceeded)
