"""One stream that advances by steps, with the responses that wait for its reader."""

from collections.abc import Callable, Iterable
from contextvars import copy_context
from time import perf_counter
from typing import Any

from ...concurrency.channel import Channel
from ...concurrency.model_thread import Work
from ...context import request_context
from ...model import Finished
from ...types import InferenceRequest, InferenceResponse
from ..call import Call
from .threads import AHEAD


class SteppedStream(Channel[InferenceResponse]):
    """One request of a call in the steps. Calls `changed` when its reader left, or it may advance again."""

    def __init__(
        self, request: InferenceRequest, call: Call, looks: int, changed: Callable[["SteppedStream"], None]
    ) -> None:
        super().__init__(AHEAD)
        self.request = request
        self.call = call
        self.looks = looks  # of the steps, when it joined
        self.waits = True
        """Whether it has no place yet."""
        self.context = copy_context()  # of the call's task, for `admit`
        self.state: Any = None
        self._changed = changed
        self.came = self._loop.time()
        self.joined = perf_counter()  # the loop's time has steps of a millisecond
        self._request_context = request_context()
        self._released = Work()
        self._request_context.thread = self._released

    @property
    def advances(self) -> bool:
        """Whether the next step includes it. A step leaves out streams with a slow reader."""
        return self.open and self.has_room()

    def take(self, emission: Any) -> None:
        """Add the result of a step. An invalid object is refused when it is read."""
        if not self.open or emission is None:
            return
        if type(emission) is InferenceResponse:
            self.put(emission)
        elif isinstance(emission, Finished):
            self._put_all(emission.responses)
            self.end()
        elif isinstance(emission, BaseException):
            self.fail(emission)
        elif isinstance(emission, (list, tuple)):
            self._put_all(emission)
        else:
            self.put(emission)

    def _put_all(self, responses: Iterable[Any]) -> None:
        for response in responses:
            self.put(response)

    def fail(self, error: BaseException) -> None:
        """End it with `error`, which the reader gets after the earlier responses."""
        if not isinstance(error, Exception) or isinstance(error, (StopIteration, StopAsyncIteration)):
            # For a reader these would mean the end of a stream, a task or the process.
            kind = type(error).__name__
            error, cause = RuntimeError(f"model code raised {kind}"), error
            error.__cause__ = cause
        self.end(error)

    def _go_on(self) -> None:
        self._watched = False
        self._changed(self)

    async def aclose(self) -> None:
        """End it for its reader. The next step releases the state; does not wait for that."""
        self._request_context.cancelled = True
        if self.open:
            self.close()
        else:
            self._items.clear()

    def released(self) -> None:
        self.state = None
        self._released.end()
