"""One run of the fuzzers: when it ends, what was answered, and what was wrong."""

import asyncio
import re
from collections import Counter
from math import inf

OWN = re.compile(r"Model (?!(?:words|add|total)\b)\S+ (?:failed|answered)|is overloaded|not ready")
"""Failures that models of the corpus have in their own code, which is there to fail, and places that others have."""


class Run:
    """Ends after so many seconds, or so many answers."""

    def __init__(self, seconds: float = inf, requests: int | None = None) -> None:
        self._until = asyncio.get_running_loop().time() + seconds
        self._requests = requests
        self.seen: Counter[str] = Counter()
        """Answers by kind."""
        self.faults: list[str] = []

    def fault(self, said: str, of: bytes | str) -> None:
        """Note a failure that the server must not have had, unless a model had it."""
        if not OWN.search(said):
            self.faults.append(f"{said} to {of[:2000]!r}")

    @property
    def over(self) -> bool:
        enough = self._requests is not None and self.seen.total() >= self._requests
        return enough or asyncio.get_running_loop().time() >= self._until
