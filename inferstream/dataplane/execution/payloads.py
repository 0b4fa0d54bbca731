"""The requests of a call, as the model reads them."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from ...types import InferenceRequest
from ..call import Call
from ..checks import Checks


class Payloads:
    """Yields the first request, then later ones as they arrive.

    Raises InvalidRequest if a later request is invalid. Supports `async for` on any event loop, and `for` in
    threads.
    """

    def __init__(self, call: Call, checks: Checks) -> None:
        self.call = call
        self._first: InferenceRequest | None = call.request
        self.current = call.request
        """The request that the model read last. The next response gets its id."""
        self._more = call.more
        self._checks = checks
        self._loop = asyncio.get_running_loop()

    @property
    def more(self) -> bool:
        return self._more is not None

    def take(self) -> InferenceRequest:
        """Return the first request, which is already available. Must be called once, before any iteration."""
        first, self._first = self._first, None
        assert first is not None
        return first

    def __aiter__(self) -> AsyncIterator[InferenceRequest]:
        return self

    async def __anext__(self) -> InferenceRequest:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        if self._more is None:
            raise StopAsyncIteration
        if asyncio.get_running_loop() is not self._loop:  # A model in a separate thread.
            step = asyncio.run_coroutine_threadsafe(self._next_or_none(), self._loop)
            following = await asyncio.wrap_future(step)
            if following is None:
                raise StopAsyncIteration
            return following
        request = await anext(self._more)
        self._checks.check(request)
        self.current = request
        return request

    def __iter__(self) -> Iterator[InferenceRequest]:
        return self

    def __next__(self) -> InferenceRequest:
        if self._first is None and self._more is None:
            raise StopIteration
        step = asyncio.run_coroutine_threadsafe(self._next_or_none(), self._loop)
        request = step.result()
        if request is None:
            raise StopIteration
        return request

    async def _next_or_none(self) -> InferenceRequest | None:
        return await anext(self, None)
