"""The later requests of a call, between the client that sends them and the model that takes them."""

import asyncio
from collections import deque

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
        self._wanted: asyncio.Future[None] | None = None

    def add(self, request: InferenceRequest, size: int) -> None:
        """The next request, which took `size` bytes; one that comes after the end is nobody's."""
        if self._over:
            return
        self._requests.append((request, size))
        self._size += size
        if self._full:
            self._reading.hold(self)
        self._wake()

    def end(self) -> None:
        """There are no more."""
        self._over = True
        self._wake()

    def close(self) -> None:
        """Nobody takes any more."""
        self._over = True
        self._requests.clear()
        self._reading.release(self)

    @property
    def _full(self) -> bool:
        return len(self._requests) >= WAITING or self._size >= WAITING_BYTES

    def _wake(self) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    def __aiter__(self) -> "RequestStream":
        return self

    async def __anext__(self) -> InferenceRequest:
        while not self._requests:
            if self._over:
                raise StopAsyncIteration
            self._wanted = asyncio.get_running_loop().create_future()
            await self._wanted
        request, size = self._requests.popleft()
        self._size -= size
        if not self._full:
            self._reading.release(self)
        return request
