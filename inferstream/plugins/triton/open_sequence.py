"""An open sequence: requests that share state."""

import asyncio


class OpenSequence:
    """The requests between the start and the end of a sequence."""

    __slots__ = ("__weakref__", "idle_since", "requests", "turn")

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.requests = 0
        """The number of waiting and running requests."""
        self.idle_since = 0.0
        """The time at which the last request ended, on the event loop's clock."""
