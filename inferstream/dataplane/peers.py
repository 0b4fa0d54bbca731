"""Messages between the front ends of a server: typed questions with typed replies."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from ..errors import Code, NotFound, WorkerLost
from ..extensions.entries import MESSAGES
from ..extensions.loading import load_group
from ..processes.frames import PeerQuestion

A = TypeVar("A")

LIMIT = 10.0
"""Default timeout of a question, in seconds."""

PROMPT = 1.0
"""Timeout per front end when all others are asked, in seconds."""


class PackedQuestion(PeerQuestion[Any]):
    """An encoded question with the number of its type. Processes forward it without decoding it."""

    kind: int
    content: msgspec.Raw


class Questions:
    """The registry of question types. The position of a type in `names` is its number in all processes."""

    def __init__(self, names: Sequence[str] | None = None, strict: bool = False) -> None:
        """`names` lists the supervisor's question types, some of which this process may lack.

        None in the supervisor.
        """
        for _ in load_group(MESSAGES, strict):
            pass  # The import defines them.
        known = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in PeerQuestion.__subclasses__()}
        self.names = sorted(known) if names is None else names
        self._kinds = [known.get(name) for name in self.names]

    def pack(self, question: PeerQuestion[Any]) -> PackedQuestion:
        """Encode a question. Raises NotFound if the supervisor does not have this type."""
        if isinstance(question, PackedQuestion):
            return question
        if type(question) not in self._kinds:
            raise NotFound(f"The front ends of this server know no {type(question).__name__}.")
        content = msgspec.Raw(msgspec.msgpack.encode(question))
        return PackedQuestion(self._kinds.index(type(question)), content)

    def unpack(self, packed: PackedQuestion) -> PeerQuestion[Any]:
        """Decode a question. Raises NotFound if this process does not have its type."""
        if (kind := self._kinds[packed.kind]) is None:
            raise NotFound(f"This front end knows no {self.names[packed.kind]}.")
        question: PeerQuestion[Any] = msgspec.msgpack.decode(packed.content, type=kind)
        return question


class CancelCalls(PeerQuestion[int]):
    """Cancel the calls with this id and these credentials. The answer is the number of cancelled calls."""

    id: str
    credentials: str


Ask = Callable[[int, Any], Awaitable[Any]]
"""Sends a question to another front end, and returns the reply."""


class Peers:
    """The front ends of this server, by index. A server with a single front end has no peers."""

    def __init__(self, index: int = 0, count: int = 1, ask: Ask | None = None) -> None:
        self.index = index
        self._count = count
        self._ask = ask
        self._answers: dict[type[PeerQuestion[Any]], Callable[[Any], Awaitable[Any]]] = {}

    @property
    def alone(self) -> bool:
        """Whether this is the only front end."""
        return self._count == 1

    def answers(self, kind: type[PeerQuestion[A]], answer: Callable[[Any], Awaitable[A]]) -> None:
        """Register the handler for a type of question. It may raise errors of this package."""
        self._answers[kind] = answer

    async def answer(self, question: PeerQuestion[A]) -> A:
        """Handle a question in this front end. Raises NotFound or the handler's errors."""
        kind = type(question)
        if kind not in self._answers:
            raise NotFound(f"The front end {self.index} answers no {kind.__name__}.")
        answer: A = await self._answers[kind](question)
        return answer

    async def ask(self, front_end: int, question: PeerQuestion[A], limit: float = LIMIT) -> A:
        """Send a question to one front end. Raises NotFound, WorkerLost or the handler's errors.

        A front end that does not reply within `limit` seconds counts as lost.
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
        """Send a question to all other front ends. Skips front ends that do not reply."""
        others = [index for index in range(self._count) if index != self.index]
        asking = (self.ask(index, question, PROMPT) for index in others)
        answers = []
        for answer in await asyncio.gather(*asking, return_exceptions=True):
            if not isinstance(answer, BaseException):
                answers.append(answer)
            elif getattr(answer, "code", None) is not Code.WORKER_LOST:
                raise answer
        return answers
