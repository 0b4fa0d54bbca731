"""The values of the later requests of a stream from the client."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from .arguments import Arguments, Sizes


class LaterValues:
    """The values of a stream from the client. For `async for`, and `for` in a thread."""

    def __init__(self, arguments: Arguments, payloads: Any, given: dict[str, Any], sizes: Sizes) -> None:
        """Takes the value of the first request, if it has one, out of `given`."""
        assert arguments.stream is not None
        self._arguments = arguments
        self._payloads = payloads
        self._sizes = sizes
        self._first = [given.pop(arguments.stream.name)] if arguments.stream.name in given else []

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._first:
            return self._first.pop()
        return self._arguments.later(await self._payloads.__anext__(), self._sizes)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._first:
            return self._first.pop()
        return self._arguments.later(next(self._payloads), self._sizes)
