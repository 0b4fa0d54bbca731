"""Those who call: each makes one call after another, and says when each part of an answer came."""

from collections.abc import Callable
from typing import Protocol

ItemCame = Callable[[int], None]
"""Told how many items of a stream have just come."""


class BenchClient(Protocol):
    """Calls one model; one call at a time."""

    async def call(self, came: ItemCame) -> None:
        """Make one call and take all of its answer. Raises CallFailed, with a short name of what failed."""
        ...

    async def aclose(self) -> None:
        """End the connection."""
        ...
