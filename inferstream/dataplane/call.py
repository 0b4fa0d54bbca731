"""One inference call: its request, model and deadline."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from enum import Enum
from itertools import count
from random import getrandbits
from typing import TYPE_CHECKING
from uuid import uuid4

from ..concurrency.interruption import Interruption
from ..errors import DeadlineExceeded
from ..types import InferenceRequest, Parameters
from ..types.values_request import ValuesRequest

if TYPE_CHECKING:
    from .reply import Reply


class Operation(Enum):
    """Whether a caller wants exactly one response, or all that the model makes."""

    INFER = "infer"
    STREAM = "stream"


class Interruptible:
    """Work of a task for a client. Other code can end it."""

    __slots__ = ("_interruption", "expired", "failure", "reply", "task")

    def __init__(self, task: asyncio.Task[object] | None) -> None:
        self.task = task
        self.failure: Exception | None = None
        self.expired = False
        """Whether it ended because its deadline passed."""
        self.reply: Reply | None = None
        self._interruption: Interruption | None = None

    def started(self) -> None:
        """Called when it begins in the process of the model. From now on it may have effects."""

    def fail(self, error: Exception) -> None:
        self.expired = self.expired or isinstance(error, DeadlineExceeded)
        if self.reply is not None:
            self.reply.fail(error)
        elif self.failure is None:
            self.failure = error
            if self.task is not None:
                self._interruption = Interruption(self.task, lambda: self.task is not None)

    async def end(self, error: Exception) -> None:
        """As `fail`, and run the model's `finally` now, also while the reader of its stream is slow."""
        reply = self.reply
        self.fail(error)
        if reply is not None:
            await reply.end(error)

    def failed(self) -> Exception:
        """Take the failure to raise it. A stored failure would keep its frames alive, and these the call."""
        failure, self.failure = self.failure, None
        assert failure is not None
        return failure

    def take_back_cancel(self) -> None:
        """Undo the cancel of the task that was opening this call, so that it can report the failure."""
        if self._interruption is not None:
            self._interruption.take_back()
            self._interruption = None


class Call(Interruptible):
    """One inference request from any door.

    `more` yields the later requests of a bidirectional stream; None for other calls.
    `deadline` is a time on the event loop's clock, in seconds.
    `task` opens the call. A door passes it if known, because looking it up costs a system call on Python 3.11.
    `priority` is 1 (highest) to 9 (lowest), and 0 until the dataplane applies the model's default.
    `principal` names the client, or is None.
    `trace` carries the span of the call to another process.
    """

    __slots__ = (
        "deadline",
        "face",
        "headers",
        "model",
        "more",
        "operation",
        "pace",
        "principal",
        "priority",
        "request",
        "trace",
        "version",
        "waited",
        "waits",
    )

    merged = False
    """Whether it runs for other calls, which are counted on their own."""

    def __init__(
        self,
        operation: Operation,
        model: str,
        version: str | None,
        request: InferenceRequest,
        headers: Mapping[str, str],
        more: AsyncIterator[InferenceRequest] | None = None,
        deadline: float | None = None,
        task: asyncio.Task[object] | None = None,
        priority: int = 0,
        principal: str | None = None,
    ) -> None:
        self.operation = operation
        self.model = model
        self.version = version
        self.request = request
        self.headers = headers
        self.more = more
        self.deadline = deadline
        self.failure = None  # set here, because a call of the base costs as much as all assignments
        self.expired = False
        self.task = task
        self.priority = priority
        self.principal = principal
        self.pace = 0.0
        """Seconds between two responses of a stream, at least; 0 for no limit."""
        self.face = ""
        """The dialect that it came in; a door sets it."""
        self.waits = False
        """Whether it waits in a queue."""
        self.waited = 0.0
        """Seconds that it waited in queues."""
        self.trace: Mapping[str, str] | None = None
        self.reply = None
        self._interruption = None


class MergedCall(Call):
    """A batch, which runs for several calls."""

    __slots__ = ()

    merged = True


def identify(request: InferenceRequest, headers: Mapping[str, str]) -> Parameters | None:
    """Set the transport's headers as `parameters.headers`, and an id if the request has none.

    Returns the parameters, or None if the client gave none and nothing has read them.
    """
    if type(request) is ValuesRequest:
        request.headers = headers
        if request.id is None:
            request.id = new_id()
        return None
    if not request.id:
        request.__dict__["id"] = new_id()
    parameters = request.parameters
    if parameters is None:
        parameters = request.__dict__["parameters"] = Parameters.filled(
            {"content_type": None, "headers": headers}, {"headers"}, {}
        )
    else:
        parameters.__dict__["headers"] = headers
    return parameters


class Ids:
    """UUIDs (RFC 9562, version 4) from a random start and a counter. Random ones would cost ten times as much."""

    def __init__(self) -> None:
        self.begin()
        os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        """Start at a random number. A forked child does this again."""
        digits = uuid4().hex
        self._process = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-"
        self._next = count(getrandbits(47)).__next__

    def new(self) -> str:
        return f"{self._process}{self._next():012x}"


new_id = Ids().new
"""Makes an id for a request without one."""
