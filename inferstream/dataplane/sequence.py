"""One of Triton's sequences: requests that belong together."""

import asyncio


class OpenSequence:
    """The requests between a start and an end."""

    __slots__ = ("__weakref__", "idle_since", "requests", "turn")

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.requests = 0
        """Those that wait or run."""
        self.idle_since = 0.0
        """The event loop's time at which the last one ended."""
