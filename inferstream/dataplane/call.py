"""One inference on its way in: what is asked, of which model, until when."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from ..types import InferenceRequest

if TYPE_CHECKING:
    from .reply import Reply


class Operation(Enum):
    """What the caller wants back: exactly one response, or as many as the model makes."""

    INFER = "infer"
    STREAM = "stream"


class Call:
    """One inference request, whatever door it came in by.

    `more` yields the later requests of a bidirectional stream, and is None when there can be none.
    `deadline` is a point in time on the event loop's clock, in seconds.
    """

    __slots__ = ("deadline", "failure", "headers", "model", "more", "operation", "reply", "request", "task", "version")

    def __init__(
        self,
        operation: Operation,
        model: str,
        version: str | None,
        request: InferenceRequest,
        headers: Mapping[str, str],
        more: AsyncIterator[InferenceRequest] | None = None,
        deadline: float | None = None,
    ) -> None:
        self.operation = operation
        self.model = model
        self.version = version
        self.request = request
        self.headers = headers
        self.more = more
        self.deadline = deadline
        self.failure: Exception | None = None
        self.task: asyncio.Task[object] | None = None
        self.reply: Reply | None = None

    def fail(self, error: Exception) -> None:
        """End this call from outside with `error`, whether it is still opening or already answering."""
        if self.failure is not None:
            return
        self.failure = error
        if self.reply is not None:
            self.reply.fail(error)
        elif self.task is not None:
            self.task.cancel()
