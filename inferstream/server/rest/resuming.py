"""Connections of streams that may be resumed: the first one, and those that come back for the rest."""

import asyncio
import re
from abc import ABC, abstractmethod
from contextlib import suppress
from itertools import count
from typing import Literal, NamedTuple, Self, TypeVar

from ...concurrency.tasks import Tasks
from ...dataplane.caller import Caller
from ...dataplane.dataplane import DataPlane
from ...dataplane.peers import Peers
from ...errors import Gone, InferstreamError, InvalidRequest
from ...processes.frames import Part, PeerQuestion
from ...protos import sse
from ...settings import Settings
from ...telemetry.metrics import DoorMeters
from ..headers import ResponseHeaders
from .dialects.base import ParsedRequest, Route
from .exchange import Exchange
from .held import HeldStream, HeldStreams, Owner, TakenOver
from .messages import Head, RawHeaders

PREFERENCE = re.compile(rb"(?:^|,)\s*resumable\s*(?:[=;,]|$)", re.I)
"""The preference `resumable` in the header Prefer (RFC 7240)."""

APPLIED = (b"preference-applied", b"resumable")

LOOK = 5.0
"""Seconds after which another front end asks again for events that have not come."""

SPARE = 1.0
"""Seconds more than that for an answer on its way. A front end that takes longer hangs."""

A = TypeVar("A")

EVENT_ID = re.compile(r"(\d{1,2}\.[\w-]{1,64}):(\d{1,15})", re.ASCII)


class EventPlace(NamedTuple):
    """A place in a stream: behind an event."""

    id: str
    front_end: int
    number: int


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


class AttachReader(PeerQuestion[bool]):
    """The answer is whether an event follows."""

    reading: RemoteReading


class ReadEvents(PeerQuestion[RecordedEvents]):
    reading: RemoteReading


class LeaveStream(PeerQuestion[None]):
    """The connection has ended."""

    reading: RemoteReading


class ReleaseStream(PeerQuestion[None]):
    """The client wants no more of the stream."""

    reading: RemoteReading


class EventReader(ABC):
    """Reads one stream for one connection. It is what an `EventStream` sends, and passes recorded events on."""

    exchange: Exchange
    """What the events go to."""

    media_type, heartbeat = sse.CONTENT_TYPE, sse.HEARTBEAT

    @abstractmethod
    async def read(self) -> bytes:
        """The next events; none at the end. Raises TakenOver, Gone."""

    @abstractmethod
    def leave(self) -> None:
        """The connection has ended."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            events = await self.read()
        except (TakenOver, Gone):
            # Nothing may end this response well, or its client would take it for the end of the stream.
            self.exchange.abort()
            await asyncio.Event().wait()
            raise
        if not events:
            raise StopAsyncIteration
        return events

    async def aclose(self, error: BaseException | None) -> None:  # noqa: B027  # all readers do as little
        """The stream goes on."""

    def __call__(self, events: bytes) -> bytes:
        return events

    def end(self) -> bytes:
        return b""

    def failure(self, error: InferstreamError) -> bytes:
        """Nothing: the client comes back."""
        return b""


class LocalReader(EventReader):
    """Reads a stream of this front end."""

    def __init__(self, stream: HeldStream, number: int, opening: bytes = b"") -> None:
        """`opening` precedes the events."""
        self._stream = stream
        self._number = number
        self._opening = opening
        self.behind = stream.attach(self, number)

    async def read(self) -> bytes:
        if self._opening:
            opening, self._opening = self._opening, b""
            return opening
        events, self._number = await self._stream.read(self, self._number)
        return events

    def leave(self) -> None:
        self._stream.leave(self)


class RemoteReader(EventReader):
    """Reads a stream of another front end, which has only the recording: each read asks for the next events."""

    _numbers = count(1)

    def __init__(self, peers: Peers, place: EventPlace, owner: Owner, tasks: Tasks) -> None:
        self._peers = peers
        self._front_end = place.front_end
        self._tasks = tasks
        self._reading = RemoteReading(place.id, owner, f"{peers.index}:{next(self._numbers)}", place.number)

    async def attach(self) -> bool:
        """Whether an event follows. Raises Gone."""
        return await self._ask(AttachReader(self._reading))

    async def read(self) -> bytes:
        while True:
            answer = await self._ask(ReadEvents(self._reading))
            match answer.state:
                case "replaced":
                    raise TakenOver
                case "events":
                    self._reading.number = answer.number
                    return answer.events
                case "ended":
                    return b""

    def leave(self) -> None:
        self._tasks.start(self._leave())

    async def _leave(self) -> None:
        with suppress(InferstreamError):  # the stream has gone with its front end
            await self._ask(LeaveStream(self._reading))

    async def release(self) -> None:
        await self._ask(ReleaseStream(self._reading))

    async def _ask(self, question: PeerQuestion[A]) -> A:
        try:
            return await self._peers.ask(self._front_end, question, LOOK + SPARE)
        except InferstreamError as error:
            if isinstance(error, Gone | InvalidRequest):
                raise
            raise Gone(error.message) from error


class Resuming:
    """Begins streams that may be resumed, and resumes them."""

    def __init__(
        self,
        dataplane: DataPlane,
        settings: Settings,
        meters: DoorMeters,
        headers: ResponseHeaders[bytes],
    ) -> None:
        self._peers = dataplane.peers
        self._credentials = dataplane.credentials
        self._streams = HeldStreams(settings, self._peers.index, meters)
        self._always = settings.resumable_streams
        self._stall = settings.stream_stall_timeout
        self._headers = headers
        self._tasks = Tasks()
        self._peers.answers(AttachReader, self._attach)
        self._peers.answers(ReadEvents, self._next)
        self._peers.answers(LeaveStream, self._leave)
        self._peers.answers(ReleaseStream, self._expire)

    def wanted(self, head: Head, asked: ParsedRequest, route: Route) -> bool:
        """Whether the stream of a request is to be resumable."""
        resumable = asked.admission.pipeline.settings.resumable_streams
        if resumable is None:
            resumable = self._always
        if not resumable and (head.prefer is None or not PREFERENCE.search(head.prefer)):
            return False
        return route.dialect.resumable and asked.is_streamed

    async def begin(self, route: Route, asked: ParsedRequest, method: str) -> tuple[EventReader, RawHeaders]:
        """Begin a stream, whose first response is there. Raises Overloaded, and what precedes that response."""
        stream = self._streams.begin(self._owner(route, asked.admission.caller))
        first = await self._streams.run(stream, asked, method, route.template)
        headers = [*asked.headers, APPLIED]
        if first is not None:
            try:
                headers += self._headers.of(asked.admission, first.id, first.parameters)
            except BaseException:  # nobody would ever read the stream
                stream.expire()
                raise
        return LocalReader(stream, 0, stream.opening), headers

    async def resume(self, head: Head, route: Route, caller: Caller) -> EventReader | None:
        """What reads the rest of a stream; None if nothing is left. Raises Gone, InvalidRequest."""
        place = _place(head)
        owner = self._owner(route, caller)
        if place.front_end == self._peers.index:
            reader = LocalReader(self._streams.find(place.id, owner), place.number)
            if reader.behind:
                return reader
            reader.leave()
            return None
        remote = RemoteReader(self._peers, place, owner, self._tasks)
        if await remote.attach():
            return remote
        remote.leave()
        return None

    async def release(self, head: Head, route: Route, caller: Caller) -> None:
        """End a stream that its client does not want any more. Raises Gone, InvalidRequest."""
        place = _place(head)
        owner = self._owner(route, caller)
        if place.front_end == self._peers.index:
            self._streams.find(place.id, owner).expire()
        else:
            await RemoteReader(self._peers, place, owner, self._tasks).release()

    def _owner(self, route: Route, caller: Caller) -> Owner:
        return route.model, route.version, self._credentials.of(caller.headers, caller.principal)

    def _read_elsewhere(self, reading: RemoteReading) -> HeldStream:
        """A stream of this front end that a client of another one reads. Raises Gone."""
        return self._streams.find(reading.id, reading.owner)

    async def _attach(self, question: AttachReader) -> bool:
        reading = question.reading
        stream = self._read_elsewhere(reading)
        behind = stream.attach(reading.reader, reading.number)
        stream.leave(reading.reader, self._stall)
        return behind

    async def _leave(self, question: LeaveStream) -> None:
        self._read_elsewhere(question.reading).leave(question.reading.reader)

    async def _expire(self, question: ReleaseStream) -> None:
        self._read_elsewhere(question.reading).expire()

    async def _next(self, question: ReadEvents) -> RecordedEvents:
        reader, number = question.reading.reader, question.reading.number
        stream = self._read_elsewhere(question.reading)
        stream.stay(reader)
        try:
            async with asyncio.timeout(LOOK):
                events, last = await stream.read(reader, number)
            return RecordedEvents("events" if events else "ended", last, events)
        except TakenOver:
            return RecordedEvents("replaced", number, b"")
        except TimeoutError:
            return RecordedEvents("nothing", number, b"")
        finally:
            stream.leave(reader, self._stall)  # its front end may be lost and never say so


def _place(head: Head) -> EventPlace:
    """Raises InvalidRequest."""
    text = (head.last_event_id or b"").decode("latin-1")
    match = EVENT_ID.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"Last-Event-ID names no event of this server: {text[:100]!r}")
    id = match[1]
    return EventPlace(id, int(id.partition(".")[0]), int(match[2]))
