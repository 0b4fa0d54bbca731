"""Questions between the front ends of one server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from ..errors import Code, NotFound, WorkerLost
from ..processes.frames import Part, Query

A = TypeVar("A")

LIMIT = 10.0
"""Seconds that a front end may take for an answer, unless whoever asks has less time."""

PROMPT = 1.0
"""Seconds that each of several front ends may take."""


class CancelCalls(Query[int]):
    """Cancel the calls with this id and these credentials. The answer is their number."""

    id: str
    credentials: str


class RemoteReading(Part):
    """A connection that reads a recorded stream of another front end, behind the event `number`."""

    id: str
    owner: tuple[str, str | None, str]
    reader: str
    number: int


class RecordedEvents(Part):
    """The next events of a stream, the end, nothing so far, or that another connection reads."""

    state: Literal["events", "ended", "nothing", "replaced"]
    number: int
    events: bytes


class AttachReader(Query[bool]):
    """The answer is whether an event follows."""

    reading: RemoteReading


class ReadEvents(Query[RecordedEvents]):
    reading: RemoteReading


class LeaveStream(Query[None]):
    """The connection has ended."""

    reading: RemoteReading


class ReleaseStream(Query[None]):
    """The client wants no more of the stream."""

    reading: RemoteReading


class ModelLoad(Part):
    """The load of one model in one process. `slots` are the calls that its model code can run at once."""

    model: str
    version: str | None
    in_flight: int
    waiting: int
    slots: int
    kv_used: float = 0.0
    kv_caches: int = 0
    calls: int = 0
    failed: int = 0

    def add(self, other: "ModelLoad") -> None:
        """Add the same model in another process."""
        for name in self.__struct_fields__[2:]:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class ProcessLoad(Part):
    """The load of a front end. `cpu` is in seconds."""

    models: list[ModelLoad]
    cpu: float


class CountLoad(Query[ProcessLoad]):
    """Count the load now; with `ends` the calls that have ended too."""

    ends: bool


class SetLogLevel(Query[None]):
    """Write to the log what has this level or a higher one."""

    level: int


class KnownRegion(Part):
    """A region of shared memory that a client has registered. `owner` is its principal; empty without keys."""

    owner: str
    name: str
    key: str
    offset: int
    byte_size: int


class RegisterRegion(Query[None]):
    region: KnownRegion


class UnregisterRegions(Query[None]):
    """Forget the region of this name, or all of the owner's where `name` is empty."""

    owner: str
    name: str


class ListRegions(Query[list[KnownRegion]]):
    """The answer is every region that the front end has open."""


PeerQuery = (
    RegisterRegion
    | UnregisterRegions
    | ListRegions
    | SetLogLevel
    | CancelCalls
    | AttachReader
    | ReadEvents
    | LeaveStream
    | ReleaseStream
    | CountLoad
)

Ask = Callable[[int, Any], Awaitable[Any]]
"""Sends another front end a question, and returns its answer."""


class Peers:
    """The front ends of this server, each known by its index. A server with one front end has no others."""

    def __init__(self, index: int = 0, count: int = 1, ask: Ask | None = None) -> None:
        self.index = index
        self._count = count
        self._ask = ask
        self._answers: dict[type[Query[Any]], Callable[[Any], Awaitable[Any]]] = {}

    @property
    def alone(self) -> bool:
        """Whether there is one front end."""
        return self._count == 1

    def answers(self, kind: type[Query[A]], answer: Callable[[Any], Awaitable[A]]) -> None:
        """Let `answer` answer all questions of a kind. It may raise errors of our own."""
        self._answers[kind] = answer

    async def answer(self, question: Query[A]) -> A:
        """The answer of this front end. Raises NotFound, and what the answer raises."""
        kind = type(question)
        if kind not in self._answers:
            raise NotFound(f"The front end {self.index} answers no {kind.__name__}.")
        answer: A = await self._answers[kind](question)
        return answer

    async def ask(self, front_end: int, question: Query[A], limit: float = LIMIT) -> A:
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

    async def ask_others(self, question: Query[A]) -> list[A]:
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
