"""The queue of a call's later requests, between their client and the model."""

from collections import deque
from collections.abc import Hashable
from typing import Protocol

from ...concurrency.wakeup import Wakeup
from ...types import InferenceRequest

WAITING = 16
WAITING_BYTES = 256 * 1024
"""Requests and bytes in the queue; reading from the client stops when one of them is reached."""


class Holdable(Protocol):
    """Reading from a connection, which stops while there is a reason to hold it."""

    def hold(self, reason: Hashable) -> None: ...

    def release(self, reason: Hashable) -> None: ...


class RequestStream:
    """Requests in order of arrival. A model that reads them slowly pauses the connection."""

    def __init__(self, reading: Holdable) -> None:
        self._reading = reading
        self._requests: deque[tuple[InferenceRequest, int]] = deque()
        self._size = 0
        self._over = False
        self._news = Wakeup()

    def add(self, request: InferenceRequest, size: int) -> None:
        """Append a request of `size` bytes; one after the end is dropped."""
        if self._over:
            return
        self._requests.append((request, size))
        self._size += size
        if self._full:
            self._reading.hold(self)
        self._news.wake()

    def end(self) -> None:
        self._over = True
        self._news.wake()

    def close(self) -> None:
        """Drop the queue, because the call has ended."""
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
