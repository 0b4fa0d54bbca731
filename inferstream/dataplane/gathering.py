"""The bound of what the server collects of a stream for one whole response."""

from collections.abc import Awaitable, Callable
from typing import ParamSpec

from ..concurrency.outgoing import give
from ..errors import PayloadTooLarge
from ..types import InferenceResponse
from .reply import Reply

Given = ParamSpec("Given")

ITEM_BYTES = 64
"""Bytes that the smallest item takes as a Python object."""


class GatherLimit:
    """Bytes that may be collected for one whole response, or for the responses of one batch."""

    __slots__ = ("_advice", "_left")

    def __init__(self, limit: int, advice: str = "ask for a stream, or for less") -> None:
        self._left = limit
        self._advice = advice

    def take(self, size: int) -> None:
        """Collect bytes. Raises PayloadTooLarge."""
        self._left -= size
        if self._left < 0:
            raise PayloadTooLarge(
                f"The whole response is larger than the server collects (setting max_body_bytes); {self._advice}."
            )

    def counting(self, write: Callable[Given, bytes]) -> Callable[Given, bytes]:
        """The same function, but it collects what it returns. It raises PayloadTooLarge too."""

        def written(*args: Given.args, **kwargs: Given.kwargs) -> bytes:
            made = write(*args, **kwargs)
            self.take(len(made))
            return made

        return written

    def take_response(self, response: InferenceResponse) -> None:
        """Collect one item of a stream as objects. Raises PayloadTooLarge."""
        if response.form is not None:  # reading its outputs would make a tensor of the value
            value = response.value
            self.take(len(value) + ITEM_BYTES if type(value) in _TEXTS else ITEM_BYTES)
            return
        size = ITEM_BYTES
        for output in response.outputs:
            data = output.data
            if (array := data.array) is not None and not array.dtype.hasobject:
                size += array.nbytes
            elif data.is_raw:
                size += len(data.to_raw(output.datatype))
            elif type(values := data.values) is list:
                size += sum([len(value) if type(value) in _TEXTS else ITEM_BYTES for value in values])
        self.take(size)


_TEXTS = (str, bytes)


async def gather(reply: Reply, limit: int, add: Callable[[InferenceResponse], bool]) -> None:
    """Give each response to `add`, until it returns False. Raises PayloadTooLarge above `limit` bytes."""
    collected = GatherLimit(limit)

    def collect(response: InferenceResponse) -> Awaitable[None] | None:
        collected.take_response(response)
        return None if add(response) else reply.aclose(None)

    await give(reply, collect)
