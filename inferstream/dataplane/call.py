"""One inference call: its request, model and deadline, and the parameters of its urgency."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, Any

from ..concurrency.scope import Scope
from ..errors import DeadlineExceeded, InvalidRequest
from ..settings import SLOWEST
from ..types import InferenceRequest, Parameters

if TYPE_CHECKING:
    from .reply import Reply


class Operation(Enum):
    """Whether a caller wants exactly one response, or all that the model makes."""

    INFER = "infer"
    STREAM = "stream"


INFER, STREAM = Operation
"""The members themselves: Python 3.11 takes 60 ns to find one in its class."""


class Call(Scope):
    """One inference request from any door, and the scope of its opening. A stream that is open has one of its own.

    `more` yields the later requests of a bidirectional stream; None for other calls.
    `deadline` is a time on the event loop's clock, in seconds.
    `task` opens the call. A door passes it if known, because looking it up costs a system call on Python 3.11.
    `dialect` is the one that it came in; empty in a process of workers.
    `pace` is the least time between two responses of a stream in seconds; 0 for no limit.
    `priority` is 1 (highest) to 9 (lowest), and 0 until the dataplane applies the model's default.
    `principal` names the client, or is None.
    `trace` carries the span of the call to another process.
    """

    __slots__ = (
        "affinity",
        "deadline",
        "dialect",
        "expired",
        "headers",
        "model",
        "more",
        "operation",
        "pace",
        "principal",
        "priority",
        "reply",
        "request",
        "seen",
        "trace",
        "values",
        "version",
        "waited",
        "waits",
    )

    merged = False
    """Whether it runs for other calls, which are counted on their own."""

    halved = False
    """Whether, after a failure, its requests run again in halves, the last of which are logged."""

    values: dict[Any, Any]
    """What plug-ins keep with it, by their `CallValue`; not set where they keep nothing."""

    seen: float
    """When `Live` saw it first, on the event loop's clock; not set before."""

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
        dialect: str = "",
        pace: float = 0.0,
    ) -> None:
        self.operation = operation
        self.model = model
        self.version = version
        self.request = request
        self.headers = headers
        self.more = more
        self.deadline = deadline
        self.reason = None  # set here, because a call of the base costs as much as all assignments
        self.task = task
        self.expired = False
        """Whether it ended because its deadline passed."""
        self.priority = priority
        self.principal = principal
        self.dialect = dialect
        self.pace = pace
        self.affinity: object = None
        """Calls with the same affinity run in the same worker process; None for any process."""
        self.waits = False
        """Whether it waits in a queue."""
        self.waited = 0.0
        """Seconds that it waited in queues."""
        self.trace: Mapping[str, str] | None = None
        self.reply: Reply | None = None
        """The stream that it has opened."""

    def started(self) -> None:
        """Called when it begins in the process of the model. From now on it may have effects."""

    def end(self, reason: Exception) -> None:
        """End the call or its stream, from any code of its event loop."""
        self.expired = self.expired or isinstance(reason, DeadlineExceeded)
        if self.reply is None:
            super().end(reason)
        else:
            self.reply.end(reason)

    def end_values(self, tokens: int) -> None:
        """End what plug-ins keep with it, after it has used so many tokens. For calls without an admission."""
        if hasattr(self, "values"):
            for key, value in self.values.items():
                key.end(value, tokens)


CALL_OF_MODEL = "model"
"""The dialect of calls by the code of another model."""

Handler = Callable[[Call], Awaitable["Reply"]]
"""Returns when the first response exists. Earlier errors are raised, so that they can still become a status."""


class MergedCall(Call):
    """A batch, which runs for several calls."""

    __slots__ = ("halved",)

    merged = True


def identify(request: InferenceRequest, headers: Mapping[str, str]) -> Parameters | None:
    """Set the transport's headers as `parameters.headers`, and an id if the request has none.

    Returns the parameters, or None if the client gave none and nothing has read them.
    """
    if not request.id:
        request.id = new_id()
    return request.carry(headers)


AT_A_TIME = 256
"""Ids whose bits are read at once."""


class Ids:
    """UUIDs (RFC 9562, version 4) with 88 random bits, read from the system for many at a time.

    A client that knows ids of its own must not guess those of others, because a request is cancelled by its id.
    `uuid4` costs four times as much.
    """

    def __init__(self) -> None:
        self.begin()
        os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        """Start anew. A forked child does this again."""
        self._next = _random_ids().__next__

    def new(self) -> str:
        return self._next()


def _random_ids() -> Iterator[str]:
    process = os.urandom(4).hex()
    while True:
        digits = os.urandom(11 * AT_A_TIME).hex()
        for at in range(0, len(digits), 22):
            yield (
                f"{process}-{digits[at : at + 4]}-4{digits[at + 4 : at + 7]}-a{digits[at + 7 : at + 10]}"
                f"-{digits[at + 10 : at + 22]}"
            )


new_id = Ids().new
"""Makes an id for a request without one."""


HIGHEST, LOWEST = 1, 9
"""1 is first; all numbers above 9 count as 9."""

LONGEST = 10**15
"""Microseconds; the longest timeout of a request, thirty years."""

PRIORITY = "priority"
TIMEOUT = "timeout"
PACE = "items_per_second"


def apply_parameters(call: Call, parameters: Parameters | None) -> None:
    """Apply the parameters `priority` and `items_per_second`, over a header's, and `timeout`, if earlier.

    Raises InvalidRequest.
    """
    said = None if parameters is None else parameters.__pydantic_extra__
    if not said:
        return
    priority, timeout = said.get(PRIORITY), said.get(TIMEOUT)
    if priority is not None:
        call.priority = as_priority(priority, f'parameter "{PRIORITY}"') or call.priority
    if timeout is not None:
        _limit(call, timeout)
    if (rate := said.get(PACE)) is not None:
        call.pace = as_interval(rate, f'parameter "{PACE}"')


def _limit(call: Call, timeout: object) -> None:
    if type(timeout) is not int or not 0 <= timeout <= LONGEST:
        raise InvalidRequest(f'parameter "{TIMEOUT}" must be a whole number of microseconds, got {timeout!r}')
    if timeout:
        deadline = asyncio.get_running_loop().time() + timeout / 1e6
        call.deadline = deadline if call.deadline is None else min(call.deadline, deadline)


def as_priority(stated: object, where: str) -> int:
    """A priority for a call; 0 selects the model's default. Raises InvalidRequest that names `where`."""
    if type(stated) is not int or stated < 0:
        raise InvalidRequest(
            f"{where} must be a whole number, {HIGHEST} for the highest priority and more for lower ones, "
            f"or 0 for the model's default; got {stated!r}"
        )
    return min(stated, LOWEST)


def header_priority(value: bytes | str | None) -> int:
    """The priority in the header X-Request-Priority; 0 without one. Raises InvalidRequest."""
    if value is None:
        return 0
    text = value if isinstance(value, str) else value.decode("latin-1")
    stated = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else text
    return as_priority(stated, "X-Request-Priority")


def header_timeout(value: bytes | str) -> float:
    """The seconds of the header X-Request-Timeout. Raises InvalidRequest."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e9:
        raise InvalidRequest("X-Request-Timeout must be a positive number of seconds.")
    return seconds


def as_interval(rate: object, where: str) -> float:
    """Seconds between two responses of a stream at this rate. Raises InvalidRequest that names `where`."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not isfinite(rate) or rate <= 0:
        raise InvalidRequest(f"{where} must be a positive number of responses in a second, got {rate!r}")
    if rate < SLOWEST:
        raise InvalidRequest(f"{where} must be at least {SLOWEST} responses in a second, got {rate!r}")
    return 1 / rate


def header_interval(value: bytes | None) -> float:
    """The interval of the header X-Items-Per-Second; 0 without one. Raises InvalidRequest."""
    if value is None:
        return 0.0
    text = value.decode("latin-1")
    try:
        return as_interval(float(text), "X-Items-Per-Second")
    except ValueError:
        raise InvalidRequest(f"X-Items-Per-Second must be a number, got {text!r}") from None
