"""One end of a link between two processes, which handles events, sends queries and returns results."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, TypeVar, Union

import msgspec

from ..concurrency.tasks import Tasks
from ..errors import InferenceFailed, InferstreamError
from ..telemetry.logs import logged_traceback
from ..telemetry.tracebacks import RaisedElsewhere
from .frames import Answer, Frame, Query, answer_type, pack_failure, unpack_failure
from .link import Link

logger = logging.getLogger("inferstream.worker")

A = TypeVar("A")

MakeLink = Callable[..., Link]
"""Creates the link from a decoder, a handler of frames and a handler of its end."""

Handlers = Mapping[type[Frame], Callable[[Any], Any]]
"""The frames that a process accepts. The handler of a query returns an awaitable."""


class Endpoint:
    """Passes each received frame to its handler. Queries start in order of arrival."""

    def __init__(self, link: MakeLink, handlers: Handlers, lost: Callable[[], None]) -> None:
        self._handlers: dict[type[Frame], Callable[[Any], object]] = {
            kind: partial(self._start_answer, handler) if issubclass(kind, Query) else handler
            for kind, handler in handlers.items()
        }
        self._handlers[Answer] = self._resolve_answer
        self._waiting: dict[int, tuple[asyncio.Future[Any], type]] = {}
        self._numbers = count(1)
        self._end: Exception | None = None
        self.spawn = Tasks().start
        kinds: Any = Union[tuple(self._handlers)]  # noqa: UP007
        self.link = link(msgspec.msgpack.Decoder(kinds), self._handle_frame, lost=lost)
        self.send = self.link.send

    def ask(self, question: Query[A]) -> asyncio.Future[A]:
        """Send a query and return a future of its result.

        The future raises the error that the other process returns, or the error passed to `end`.
        """
        number = question.number = next(self._numbers)
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(partial(self._forget, number))
        if self._end is not None:
            answer.set_exception(self._end)
            return answer
        self._waiting[number] = answer, answer_type(question)
        self.send(question)
        return answer

    def _forget(self, number: int, answer: "asyncio.Future[Any]") -> None:
        self._waiting.pop(number, None)
        if not answer.cancelled():
            answer.exception()  # retrieved, because it may never be awaited

    def _resolve_answer(self, frame: Answer) -> None:
        answer, kind = self._waiting.get(frame.number, (None, None))
        if answer is None or answer.done():
            return
        if frame.failure is not None:
            answer.set_exception(unpack_failure(frame.failure))
        else:
            answer.set_result(msgspec.convert(frame.value, kind))

    def _handle_frame(self, frame: Frame) -> None:
        self._handlers[type(frame)](frame)

    def _start_answer(self, handler: Callable[[Any], Awaitable[object]], question: Query[Any]) -> None:
        self.spawn(self._answer(question.number, handler(question)))

    async def _answer(self, number: int, answer: Awaitable[object]) -> None:
        try:
            self.send(Answer(number, await answer))
            return
        except InferstreamError as error:
            if error.__cause__ is not None:  # for the log of the process that sent the query
                error.__cause__ = RaisedElsewhere(logged_traceback(error.__cause__))
            failure = pack_failure(error)
        except Exception:
            logger.exception("query from another process failed")
            failure = pack_failure(InferenceFailed("The server failed; its log says why."))
        self.send(Answer(number, None, failure))

    def end(self, error: Exception) -> None:
        """Read the remaining frames, close the link, and fail all pending and later queries."""
        self.link.drain()
        self.link.close()
        self._end = error
        for answer, _ in list(self._waiting.values()):
            if not answer.done():
                answer.set_exception(error)
