"""One inference on its way in: what is asked, of which model, until when."""

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

if TYPE_CHECKING:
    from .reply import Reply


class Operation(Enum):
    """What the caller wants back: exactly one response, or as many as the model makes."""

    INFER = "infer"
    STREAM = "stream"


class Interruptible:
    """Work of a task for a client that can be ended from outside."""

    __slots__ = ("_interruption", "expired", "failure", "reply", "task")

    def __init__(self, task: asyncio.Task[object] | None) -> None:
        self.task = task
        self.failure: Exception | None = None
        self.expired = False
        """Whether it has been ended because its time was over."""
        self.reply: Reply | None = None
        self._interruption: Interruption | None = None

    def fail(self, error: Exception) -> None:
        """End this from outside with `error`, whether it is still opening or already streams."""
        self.expired = self.expired or isinstance(error, DeadlineExceeded)
        if self.reply is not None:
            self.reply.fail(error)
        elif self.failure is None:
            self.failure = error
            if self.task is not None:
                self._interruption = Interruption(self.task, lambda: self.task is not None)

    def failed(self) -> Exception:
        """The failure, handed over to be raised: kept here, it would keep its frames, and they the call."""
        failure, self.failure = self.failure, None
        assert failure is not None
        return failure

    def take_back_cancel(self) -> None:
        """The task that was opening this call has been told, and goes on to say so."""
        if self._interruption is not None:
            self._interruption.take_back()
            self._interruption = None


class Call(Interruptible):
    """One inference request, whatever door it came in by.

    `more` yields the later requests of a bidirectional stream, and is None when there can be none.
    `deadline` is a point in time on the event loop's clock, in seconds. `task` is the task that opens
    the call, for doors that know it already: asking costs a system call on Python 3.11.
    `priority` is 1 for the highest to 9 for the lowest, and 0 until the dataplane knows the model's default.
    `principal` names the client, or is None where the door knows no name.
    `trace` says which span the call lies in, to whoever carries it to another process.
    """

    __slots__ = (
        "deadline",
        "headers",
        "model",
        "more",
        "operation",
        "principal",
        "priority",
        "request",
        "trace",
        "version",
        "waits",
    )

    merged = False
    """Whether it runs for other calls, each of which is counted for itself."""

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
        self.failure = None  # these are set here, because calling the base costs as much as setting them all
        self.expired = False
        self.task = task
        self.priority = priority
        self.principal = principal
        self.waits = False
        """Whether it waits in a queue for its turn."""
        self.trace: Mapping[str, str] | None = None
        self.reply = None
        self._interruption = None


class MergedCall(Call):
    """A call that runs for others: a batch."""

    __slots__ = ()

    merged = True


def identify(request: InferenceRequest, headers: Mapping[str, str]) -> Parameters:
    """Give a request an id if it has none, and its transport's headers as `parameters.headers`."""
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
    """UUIDs (RFC 9562, version 4) as text: random where a process begins, and counted on from there.

    A random one for each request would cost ten times as much.
    """

    def __init__(self) -> None:
        self.begin()
        os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        """Go on elsewhere than any other process."""
        digits = uuid4().hex
        self._process = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-"
        self._next = count(getrandbits(47)).__next__

    def new(self) -> str:
        """One that nobody else has."""
        return f"{self._process}{self._next():012x}"


new_id = Ids().new
"""Makes an id for a request that has none."""
