"""Questions between the front ends of one server."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from ..errors import Code, NotFound, WorkerLost
from ..extensions import MESSAGES, loaded
from ..processes.frames import PeerQuestion

A = TypeVar("A")

LIMIT = 10.0
"""Seconds that a front end may take for an answer, unless whoever asks has less time."""

PROMPT = 1.0
"""Seconds that each of several front ends may take."""


class PackedQuestion(PeerQuestion[Any]):
    """A question as processes pass it on, with the number of its kind."""

    kind: int
    content: msgspec.Raw


class Questions:
    """The kinds of questions of a server. Each has a number, on which its processes agree by `names`."""

    def __init__(self, names: Sequence[str] | None = None, strict: bool = False) -> None:
        """`names` are those of the process that decides. This process may not know all of them."""
        for _ in loaded(MESSAGES, strict):
            pass  # the import defines them
        known = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in PeerQuestion.__subclasses__()}
        self.names = sorted(known) if names is None else names
        self._kinds = [known.get(name) for name in self.names]

    def pack(self, question: PeerQuestion[Any]) -> PackedQuestion:
        """Raises NotFound for a kind that the process which decides does not know."""
        if isinstance(question, PackedQuestion):
            return question
        if type(question) not in self._kinds:
            raise NotFound(f"The front ends of this server know no {type(question).__name__}.")
        content = msgspec.Raw(msgspec.msgpack.encode(question))
        return PackedQuestion(self._kinds.index(type(question)), content)

    def unpack(self, packed: PackedQuestion) -> PeerQuestion[Any]:
        """Raises NotFound for a kind that this process does not know."""
        if (kind := self._kinds[packed.kind]) is None:
            raise NotFound(f"This front end knows no {self.names[packed.kind]}.")
        question: PeerQuestion[Any] = msgspec.msgpack.decode(packed.content, type=kind)
        return question


class CancelCalls(PeerQuestion[int]):
    """Cancel the calls with this id and these credentials. The answer is their number."""

    id: str
    credentials: str


Ask = Callable[[int, Any], Awaitable[Any]]
"""Sends another front end a question, and returns its answer."""


class Peers:
    """The front ends of this server, each known by its index. A server with one front end has no others."""

    def __init__(self, index: int = 0, count: int = 1, ask: Ask | None = None) -> None:
        self.index = index
        self._count = count
        self._ask = ask
        self._answers: dict[type[PeerQuestion[Any]], Callable[[Any], Awaitable[Any]]] = {}

    @property
    def alone(self) -> bool:
        """Whether there is one front end."""
        return self._count == 1

    def answers(self, kind: type[PeerQuestion[A]], answer: Callable[[Any], Awaitable[A]]) -> None:
        """Let `answer` answer all questions of a kind. It may raise errors of our own."""
        self._answers[kind] = answer

    async def answer(self, question: PeerQuestion[A]) -> A:
        """The answer of this front end. Raises NotFound, and what the answer raises."""
        kind = type(question)
        if kind not in self._answers:
            raise NotFound(f"The front end {self.index} answers no {kind.__name__}.")
        answer: A = await self._answers[kind](question)
        return answer

    async def ask(self, front_end: int, question: PeerQuestion[A], limit: float = LIMIT) -> A:
        """The answer of one front end. Raises NotFound, WorkerLost, and what the answer raises.

        A front end that takes longer than `limit` seconds counts as lost.
        """
        if front_end == self.index:
            return await self.answer(question)
        if self._ask is None or not 0 <= front_end < self._count:
            raise NotFound(f"This server has no front end {front_end}.")
        try:
            async with asyncio.timeout(limit):
                answer: A = await self._ask(front_end, question)
                return answer
        except TimeoutError:
            raise WorkerLost(f"the front end {front_end} has not answered within {limit:g} s") from None

    async def ask_others(self, question: PeerQuestion[A]) -> list[A]:
        """The answers of all other front ends, except those that are lost, start or hang."""
        others = [index for index in range(self._count) if index != self.index]
        asking = (self.ask(index, question, PROMPT) for index in others)
        answers = []
        for answer in await asyncio.gather(*asking, return_exceptions=True):
            if not isinstance(answer, BaseException):
                answers.append(answer)
            elif getattr(answer, "code", None) is not Code.WORKER_LOST:
                raise answer
        return answers
