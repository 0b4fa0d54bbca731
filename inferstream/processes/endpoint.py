"""One end of a link between two processes: dispatches events, answers questions and asks them."""

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
"""Makes the link from a decoder, and functions for each frame and for its end."""

Handlers = Mapping[type[Frame], Callable[[Any], Any]]
"""The frames that a process accepts. The handler of a question returns an awaitable of the answer."""


class Endpoint:
    """Accepts the frames that have a handler. Questions begin in the order in which they come."""

    def __init__(self, link: MakeLink, handlers: Handlers, lost: Callable[[], None]) -> None:
        self._handlers: dict[type[Frame], Callable[[Any], object]] = {
            kind: partial(self._asked, handler) if issubclass(kind, Query) else handler
            for kind, handler in handlers.items()
        }
        self._handlers[Answer] = self._answered
        self._waiting: dict[int, tuple[asyncio.Future[Any], type]] = {}
        self._numbers = count(1)
        self._end: Exception | None = None
        self.spawn = Tasks().start
        kinds: Any = Union[tuple(self._handlers)]  # noqa: UP007
        self.link = link(msgspec.msgpack.Decoder(kinds), self._received, lost=lost)
        self.send = self.link.send

    def ask(self, question: Query[A]) -> asyncio.Future[A]:
        """Send a question; its answer. Raises what the other process answers with, or what `end` is called with."""
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
            answer.exception()  # it may not be awaited

    def _answered(self, frame: Answer) -> None:
        answer, kind = self._waiting.get(frame.number, (None, None))
        if answer is None or answer.done():
            return
        if frame.failure is not None:
            answer.set_exception(unpack_failure(frame.failure))
        else:
            answer.set_result(msgspec.convert(frame.value, kind))

    def _received(self, frame: Frame) -> None:
        self._handlers[type(frame)](frame)

    def _asked(self, handler: Callable[[Any], Awaitable[object]], question: Query[Any]) -> None:
        self.spawn(self._answer(question.number, handler(question)))

    async def _answer(self, number: int, answer: Awaitable[object]) -> None:
        try:
            self.send(Answer(number, await answer))
            return
        except InferstreamError as error:
            if error.__cause__ is not None:  # for the log of the process that asks
                error.__cause__ = RaisedElsewhere(logged_traceback(error.__cause__))
            failure = pack_failure(error)
        except Exception:
            logger.exception("a question of another process failed")
            failure = pack_failure(InferenceFailed("The server failed; its log says why."))
        self.send(Answer(number, None, failure))

    def end(self, error: Exception) -> None:
        """Read what is left, close the link, and fail all questions, also later ones."""
        self.link.drain()
        self.link.close()
        self._end = error
        for answer, _ in list(self._waiting.values()):
            if not answer.done():
                answer.set_exception(error)
