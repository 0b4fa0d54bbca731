"""The requests of a client's stream over a WebSocket, in bounded memory."""

from ...concurrency.channel import SizedChannel
from ...concurrency.outgoing import Holdable
from ...types import InferenceRequest

WAITING = 16
WAITING_BYTES = 256 * 1024
"""Requests and bytes in the queue; reading from the client stops when one of them is reached."""


class RequestStream(SizedChannel[InferenceRequest]):
    """Requests in order of arrival. A model that reads them slowly pauses the connection."""

    def __init__(self, reading: Holdable) -> None:
        super().__init__(WAITING, WAITING_BYTES)
        self._reading = reading

    def add(self, request: InferenceRequest, size: int) -> None:
        """Append a request of `size` bytes; one after the end is dropped."""
        self.put(request, size)
        if not self.has_room():
            self._reading.hold(self)

    def _go_on(self) -> None:
        self._reading.release(self)
