"""Questions between the front ends of one server."""

import asyncio
from collections.abc import Awaitable, Callable

from ..errors import Code, NotFound, WorkerLost

Answer = Callable[[str], Awaitable[bytes]]
"""Answers a text that another front end has sent. May raise errors of our own."""

LIMIT = 10.0
"""Seconds that a front end may take for an answer, unless whoever asks has less time."""

PROMPT = 1.0
"""Seconds that each of several front ends may take."""

Ask = Callable[[int, str, str], Awaitable[bytes]]
"""Sends another front end a question about a subject."""


class Peers:
    """The front ends of this server, each known by its index. A server with one front end has no others."""

    def __init__(self, index: int = 0, count: int = 1, ask: Ask | None = None) -> None:
        self.index = index
        self._count = count
        self._ask = ask
        self._answers: dict[str, Answer] = {}

    def answers(self, subject: str, answer: Answer) -> None:
        """Let `answer` answer all questions about a subject."""
        self._answers[subject] = answer

    async def ask(self, front_end: int, subject: str, text: str, limit: float = LIMIT) -> bytes:
        """The answer of one front end. Raises NotFound, WorkerLost, and what the answer raises.

        A front end that takes longer than `limit` seconds counts as lost.
        """
        if front_end == self.index:
            if subject not in self._answers:
                raise NotFound(f'The front end {front_end} answers nothing about "{subject}".')
            return await self._answers[subject](text)
        if self._ask is None or not 0 <= front_end < self._count:
            raise NotFound(f"This server has no front end {front_end}.")
        try:
            async with asyncio.timeout(limit):
                return await self._ask(front_end, subject, text)
        except TimeoutError:
            raise WorkerLost(f"the front end {front_end} has not answered within {limit:g} s") from None

    async def ask_others(self, subject: str, text: str) -> list[bytes]:
        """The answers of all other front ends, except those that are lost, start or hang."""
        others = [index for index in range(self._count) if index != self.index]
        if not others:
            return []
        asking = (self.ask(index, subject, text, PROMPT) for index in others)
        found = await asyncio.gather(*asking, return_exceptions=True)
        for answer in found:
            if isinstance(answer, BaseException) and getattr(answer, "code", None) is not Code.WORKER_LOST:
                raise answer
        return [answer for answer in found if isinstance(answer, bytes)]
