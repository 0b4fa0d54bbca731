"""A call as its caller wants it, and its time limit."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from .failures import too_late
from .model_types import Later, ModelTypes
from .transport import ModelName

Scalar = str | int | float | bool
Exit = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


@dataclass(slots=True)
class AskedCall:
    """What a caller wants: a model, arguments by name, and limits. `until` is on the clock of the event loop."""

    model: ModelName
    arguments: Mapping[str, Any]
    parameters: Mapping[str, Scalar]
    headers: Mapping[str, str]
    seconds: float
    until: float
    types: ModelTypes | None = None
    outputs: Sequence[str] = ()

    def begun(self) -> bool:
        """Whether a value of a stream was taken from the caller, so that the call cannot be repeated."""
        return any(isinstance(value, Later) and value.begun for value in self.arguments.values())

    def left(self) -> float:
        """Seconds until the limit."""
        return max(self.until - asyncio.get_running_loop().time(), 0.001)


class limited:  # noqa: N801  # a verb in its use
    """Raises CallTimedOut when the limit of a call passes within the block."""

    __slots__ = ("_asked", "_limit")

    def __init__(self, asked: AskedCall) -> None:
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
            raise too_late(self._asked.seconds) from None
