"""The parameters `priority` and `timeout` of a request, as Triton defines them, and `items_per_second`."""

import asyncio
from math import isfinite

from ..errors import InvalidRequest
from ..settings import SLOWEST
from ..types import Parameters
from .call import Call

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
