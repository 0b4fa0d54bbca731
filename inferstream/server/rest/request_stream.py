"""The requests of a client stream over a WebSocket, in bounded memory."""

from ...concurrency.channel import SizedChannel
from ...concurrency.outgoing import Holdable
from ...types import InferenceRequest

WAITING = 16
WAITING_BYTES = 256 * 1024
"""Maximum number of requests and of bytes in the queue. At either limit, reading from the client pauses."""


class RequestStream(SizedChannel[InferenceRequest]):
    """Requests in order of arrival. If the model reads slowly, reading from the connection pauses."""

    def __init__(self, reading: Holdable) -> None:
        super().__init__(WAITING, WAITING_BYTES)
        self._reading = reading

    def add(self, request: InferenceRequest, size: int) -> None:
        """Append a request of `size` bytes. A request after the end is dropped."""
        self.put(request, size)
        if not self.has_room():
            self._reading.hold(self)

    def _go_on(self) -> None:
        self._reading.release(self)
