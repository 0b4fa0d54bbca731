"""A call to a model, with its arguments and time limit."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from .failures import build_timeout_error
from .model_types import Later, ModelTypes
from .transport import ModelName

Scalar = str | int | float | bool
Exit = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


@dataclass(slots=True)
class ClientCall:
    """A call to make: a model, arguments by name, and limits.

    `seconds` is the time limit. `until` is the deadline, on the event loop's clock.
    """

    model: ModelName
    arguments: Mapping[str, Any]
    parameters: Mapping[str, Scalar]
    headers: Mapping[str, str]
    seconds: float
    until: float
    types: ModelTypes | None = None
    outputs: Sequence[str] = ()

    def has_begun(self) -> bool:
        """Whether the first value of an argument stream has been consumed, so the call cannot be repeated."""
        return any(isinstance(value, Later) and value.begun for value in self.arguments.values())

    def seconds_left(self) -> float:
        """Return the seconds left until the limit, at least 0.001."""
        return max(self.until - asyncio.get_running_loop().time(), 0.001)


class limited:  # noqa: N801  # used like a verb
    """Raises CallTimedOut if a call's time limit expires within the block."""

    __slots__ = ("_asked", "_limit")

    def __init__(self, asked: ClientCall) -> None:
        self._asked = asked
        self._limit = None if asked.until == math.inf else asyncio.timeout_at(asked.until)

    async def __aenter__(self) -> None:
        if self._limit is not None:
            await self._limit.__aenter__()

    async def __aexit__(self, *exit: *Exit) -> None:
        if self._limit is None:
            return
        try:
            await self._limit.__aexit__(*exit)
        except TimeoutError:
            raise build_timeout_error(self._asked.seconds) from None
