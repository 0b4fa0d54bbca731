"""The later requests of a call, between the client that sends them and the model that takes them."""

from collections import deque

from ...concurrency.wakeup import Wakeup
from ...types import InferenceRequest
from .socket_protocols import Holdable

WAITING = 16
WAITING_BYTES = 256 * 1024
"""Requests that may wait for their model, and their bytes; what passes either still waits, and the client is held."""


class RequestStream:
    """Requests in the order they came; a model that takes them slowly holds back the connection."""

    def __init__(self, reading: Holdable) -> None:
        self._reading = reading
        self._requests: deque[tuple[InferenceRequest, int]] = deque()
        self._size = 0
        self._over = False
        self._news = Wakeup()

    def add(self, request: InferenceRequest, size: int) -> None:
        """The next request, which took `size` bytes; one that comes after the end is nobody's."""
        if self._over:
            return
        self._requests.append((request, size))
        self._size += size
        if self._full:
            self._reading.hold(self)
        self._news.wake()

    def end(self) -> None:
        """There are no more."""
        self._over = True
        self._news.wake()

    def close(self) -> None:
        """Nobody takes any more."""
        self._over = True
        self._requests.clear()
        self._reading.release(self)

    @property
    def _full(self) -> bool:
        return len(self._requests) >= WAITING or self._size >= WAITING_BYTES

    def __aiter__(self) -> "RequestStream":
        return self

    async def __anext__(self) -> InferenceRequest:
        while not self._requests:
            if self._over:
                raise StopAsyncIteration
            await self._news.wait()
        request, size = self._requests.popleft()
        self._size -= size
        if not self._full:
            self._reading.release(self)
        return request
