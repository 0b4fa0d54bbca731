"""An inference call: a request with its model, deadline, priority and pace."""

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
    """Whether the client expects exactly one response (INFER) or a stream of responses (STREAM)."""

    INFER = "infer"
    STREAM = "stream"


INFER, STREAM = Operation
"""Module-level aliases, because attribute access on an enum class takes 60 ns on Python 3.11."""


class Call(Scope):
    """One inference request from any transport, and the cancel scope in which its reply is opened.

    Once a stream is open, it has a separate scope.

    - `more` yields the later requests of a bidirectional stream, and is None otherwise.
    - `deadline` is in seconds on the event loop's clock.
    - `task` is the task that opens the call. Pass it if you have it, because looking it up costs a system
      call on Python 3.11.
    - `dialect` is the API through which the request arrived. It is empty in worker processes.
    - `pace` is the minimum interval between two responses of a stream, in seconds. 0 means unlimited.
    - `priority` is 1 (highest) to 9 (lowest). It is 0 until the dataplane applies the model's default.
    - `principal` names the authenticated client, or is None.
    - `trace` propagates the tracing span to another process.
    """

    __slots__ = (
        "affinity",
        "batch_wait",
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
    """Whether this is a batch, which runs on behalf of other calls. Those calls are counted separately."""

    halved = False
    """Whether the batch is split in half and retried if it fails.

    Then only errors of single requests are logged.
    """

    values: dict[Any, Any]
    """Values that plug-ins attach through `CallValue`. The attribute is unset if there are none."""

    seen: float
    """Time of the first check by the `Live` stage, on the event loop's clock. Unset before that."""

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
        # Calling the base class would take as long as all assignments here.
        self.reason = None
        self.task = task
        self.expired = False
        """Whether the call ended because its deadline passed."""
        self.priority = priority
        self.principal = principal
        self.dialect = dialect
        self.pace = pace
        self.affinity: object = None
        """Calls with equal affinity run in the same worker process. None allows any process."""
        self.waits = False
        """Whether the call is waiting in a queue."""
        self.waited = 0.0
        """Total time spent in queues, in seconds."""
        self.batch_wait = 0.0
        """Time spent waiting for a batch to start, in seconds."""
        self.trace: Mapping[str, str] | None = None
        self.reply: Reply | None = None
        """The open stream, if any."""

    def on_start(self) -> None:
        """Hook that runs when the model's process starts the call, which may then have side effects."""

    def end(self, reason: Exception) -> None:
        """Cancel the call or its stream with `reason`. Any code on the same event loop may call this."""
        self.expired = self.expired or isinstance(reason, DeadlineExceeded)
        if self.reply is None:
            super().end(reason)
        else:
            self.reply.end(reason)

    def end_values(self, tokens: int) -> None:
        """Release the values that plug-ins attached to a call without an admission.

        `tokens` is the number of tokens that the call has used.
        """
        if hasattr(self, "values"):
            for key, value in self.values.items():
                key.end(value, tokens)


CALL_OF_MODEL = "model"
"""The dialect of calls that one model makes to another."""

Handler = Callable[[Call], Awaitable["Reply"]]
"""Handles a call, and returns when the first response exists.

Errors before the first response are raised, so that the transport can still send them as a status.
"""


class MergedCall(Call):
    """A batch that runs on behalf of several calls."""

    __slots__ = ("halved",)

    merged = True


def identify(request: InferenceRequest, headers: Mapping[str, str]) -> Parameters | None:
    """Attach the transport's headers as `parameters.headers`, and generate an id if the request has none.

    Returns the parameters, or None if the client sent none and they have not been read yet.
    """
    if not request.id:
        request.id = new_id()
    return request.carry(headers)


AT_A_TIME = 256
"""Number of ids for which random bits are read at once."""


class Ids:
    """Generates UUIDs (RFC 9562, version 4) with 88 random bits, which are read from the system in bulk.

    A request can be cancelled by its id, so clients must not be able to guess the ids of other clients.
    `uuid4` takes four times as long.
    """

    def __init__(self) -> None:
        self.begin()
        os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        """Reset the generator. Runs again in forked children, so that they do not repeat the parent's ids."""
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
"""Generates an id for a request without one."""


HIGHEST, LOWEST = 1, 9
"""Priorities. 1 is served first, and numbers above 9 count as 9."""

MAX_TIMEOUT_MICROSECONDS = 10**15
"""The longest timeout of a request in microseconds, about 30 years."""

PRIORITY = "priority"
TIMEOUT = "timeout"
PACE = "items_per_second"


def apply_parameters(call: Call, parameters: Parameters | None) -> None:
    """Apply the request parameters `priority`, `items_per_second` and `timeout` to a call.

    The first two override the headers. `timeout` applies only if it ends before the current deadline.

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
    if type(timeout) is not int or not 0 <= timeout <= MAX_TIMEOUT_MICROSECONDS:
        raise InvalidRequest(f'parameter "{TIMEOUT}" must be a whole number of microseconds, got {timeout!r}')
    if timeout:
        deadline = asyncio.get_running_loop().time() + timeout / 1e6
        call.deadline = deadline if call.deadline is None else min(call.deadline, deadline)


def as_priority(stated: object, where: str) -> int:
    """Validate a priority. 0 selects the model's default.

    Raises InvalidRequest, with `where` in the message.
    """
    if type(stated) is not int or stated < 0:
        raise InvalidRequest(
            f"{where} must be a whole number, {HIGHEST} for the highest priority and more for lower ones, "
            f"or 0 for the model's default; got {stated!r}"
        )
    return min(stated, LOWEST)


def header_priority(value: bytes | str | None) -> int:
    """Parse the header X-Request-Priority. Returns 0 if it is missing. Raises InvalidRequest."""
    if value is None:
        return 0
    text = value if isinstance(value, str) else value.decode("latin-1")
    stated = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else text
    return as_priority(stated, "X-Request-Priority")


def header_timeout(value: bytes | str) -> float:
    """Parse the header X-Request-Timeout, in seconds. Raises InvalidRequest."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e9:
        raise InvalidRequest("X-Request-Timeout must be a positive number of seconds.")
    return seconds


def as_interval(rate: object, where: str) -> float:
    """Convert a rate to the interval between two responses of a stream, in seconds.

    Raises InvalidRequest, with `where` in the message.
    """
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not isfinite(rate) or rate <= 0:
        raise InvalidRequest(f"{where} must be a positive number of responses in a second, got {rate!r}")
    if rate < SLOWEST:
        raise InvalidRequest(f"{where} must be at least {SLOWEST} responses in a second, got {rate!r}")
    return 1 / rate


def header_interval(value: bytes | None) -> float:
    """Parse the header X-Items-Per-Second. Returns the interval in seconds, or 0 if the header is missing.

    Raises InvalidRequest.
    """
    if value is None:
        return 0.0
    text = value.decode("latin-1")
    try:
        return as_interval(float(text), "X-Items-Per-Second")
    except ValueError:
        raise InvalidRequest(f"X-Items-Per-Second must be a number, got {text!r}") from None
