"""The size limit when a stream is collected into a single response."""

from collections.abc import Awaitable, Callable
from typing import ParamSpec

from ..concurrency.outgoing import for_each
from ..errors import PayloadTooLarge
from ..types import InferenceResponse
from .reply import Reply

Given = ParamSpec("Given")

ITEM_BYTES = 64
"""Size of the smallest item as a Python object, in bytes."""


class GatherLimit:
    """The number of bytes that may be collected for a single response, or for the responses of a batch."""

    __slots__ = ("_advice", "_left")

    def __init__(self, limit: int, advice: str = "ask for a stream, or for less") -> None:
        self._left = limit
        self._advice = advice

    def take(self, size: int) -> None:
        """Count bytes. Raises PayloadTooLarge above the limit."""
        self._left -= size
        if self._left < 0:
            raise PayloadTooLarge(
                f"The whole response is larger than the server collects (setting max_body_bytes); {self._advice}."
            )

    def counting(self, write: Callable[Given, bytes]) -> Callable[Given, bytes]:
        """Wrap `write` so that the bytes it returns are counted. The wrapper raises PayloadTooLarge."""

        def written(*args: Given.args, **kwargs: Given.kwargs) -> bytes:
            made = write(*args, **kwargs)
            self.take(len(made))
            return made

        return written

    def take_response(self, response: InferenceResponse) -> None:
        """Count the estimated memory of a stream item. Raises PayloadTooLarge above the limit."""
        if response.form is not None:  # Reading its outputs would convert the value to a tensor.
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
    """Pass each response to `add` until it returns False. Raises PayloadTooLarge above `limit` bytes."""
    collected = GatherLimit(limit)

    def collect(response: InferenceResponse) -> Awaitable[None] | None:
        collected.take_response(response)
        return None if add(response) else reply.aclose(None)

    await for_each(reply, collect)
