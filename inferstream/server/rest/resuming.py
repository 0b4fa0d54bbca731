"""Connections to resumable streams: the first connection, and later ones that read the remaining events."""

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
from .detached_stream import DetachedStream, HeldStreams, Owner, TakenOver
from .dialects.base import ParsedRequest, Route
from .exchange import Exchange
from .messages import Head, RawHeaders

PREFERENCE = re.compile(rb"(?:^|,)\s*resumable\s*(?:[=;,]|$)", re.I)
"""The preference `resumable` in the header Prefer (RFC 7240)."""

APPLIED = (b"preference-applied", b"resumable")

CHECK_INTERVAL_SECONDS = 5.0
"""Seconds without new events after which another front-end process repeats its request for them."""

SPARE = 1.0
"""Additional seconds for the reply to arrive. A slower front-end process is considered stuck."""

A = TypeVar("A")

EVENT_ID = re.compile(r"(\d{1,2}\.[\w-]{1,64}):(\d{1,15})", re.ASCII)


class EventPlace(NamedTuple):
    """A position in a stream: after event `number`."""

    id: str
    front_end: int
    number: int


class RemoteReading(Part):
    """A connection that reads a stream of another front-end process, after event `number`."""

    id: str
    owner: tuple[str, str | None, str]
    reader: str
    number: int


class RecordedEvents(Part):
    """The reply to ReadEvents: the next events or the state of the stream.

    `nothing` means that no event has arrived yet, and `replaced` that another connection reads the stream.
    """

    state: Literal["events", "ended", "nothing", "replaced"]
    number: int
    events: bytes


class AttachReader(PeerQuestion[bool]):
    """Attach a reader. The reply is False if the stream has ended at this event."""

    reading: RemoteReading


class ReadEvents(PeerQuestion[RecordedEvents]):
    reading: RemoteReading


class LeaveStream(PeerQuestion[None]):
    """Detach the reader, because its connection has ended."""

    reading: RemoteReading


class ReleaseStream(PeerQuestion[None]):
    """Cancel the stream for the client."""

    reading: RemoteReading


class EventReader(ABC):
    """The reader of one stream for one connection: the source, format and writer of an `EventStream`.

    The events are recorded as bytes, so the writer passes them through unchanged.
    """

    exchange: Exchange
    """The exchange that receives the events."""

    media_type, heartbeat = sse.CONTENT_TYPE, sse.HEARTBEAT

    @abstractmethod
    async def read(self) -> bytes:
        """Wait for the next events. Empty at the end. Raises TakenOver or Gone."""

    @abstractmethod
    def leave(self) -> None:
        """Detach from the stream, because the connection has ended."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            events = await self.read()
        except (TakenOver, Gone):
            # Abort, because after a normal end the client would consider the stream complete.
            self.exchange.abort()
            await asyncio.Event().wait()
            raise
        if not events:
            raise StopAsyncIteration
        return events

    async def aclose(self, error: BaseException | None) -> None:  # noqa: B027  # nothing to close
        """Do nothing, because the stream continues."""

    def __call__(self, events: bytes) -> bytes:
        return events

    def end(self) -> bytes:
        return b""

    def failure(self, error: InferstreamError) -> bytes:
        """Return no event, because the client reconnects."""
        return b""


class LocalReader(EventReader):
    """The reader of a stream of this front-end process."""

    def __init__(self, stream: DetachedStream, number: int, opening: bytes = b"") -> None:
        """Attach to `stream` after event `number`. `opening` is sent before the events."""
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
    """The reader of a stream of another front-end process. Each read is a message to that process."""

    _numbers = count(1)

    def __init__(self, peers: Peers, place: EventPlace, owner: Owner, tasks: Tasks) -> None:
        self._peers = peers
        self._front_end = place.front_end
        self._tasks = tasks
        self._reading = RemoteReading(place.id, owner, f"{peers.index}:{next(self._numbers)}", place.number)

    async def attach(self) -> bool:
        """Attach to the stream. Returns False if no event follows. Raises Gone or InvalidRequest."""
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
        with suppress(InferstreamError):  # the front-end process has stopped, and the stream with it
            await self._ask(LeaveStream(self._reading))

    async def release(self) -> None:
        await self._ask(ReleaseStream(self._reading))

    async def _ask(self, question: PeerQuestion[A]) -> A:
        try:
            return await self._peers.ask(self._front_end, question, CHECK_INTERVAL_SECONDS + SPARE)
        except InferstreamError as error:
            if isinstance(error, Gone | InvalidRequest):
                raise
            raise Gone(error.message) from error


class Resuming:
    """Starts, resumes and cancels resumable streams."""

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
        self._peers.answers(ReadEvents, self._read_events)
        self._peers.answers(LeaveStream, self._leave)
        self._peers.answers(ReleaseStream, self._expire)

    def is_resumable(self, head: Head, asked: ParsedRequest, route: Route) -> bool:
        """Whether a request is for a resumable stream, by its Prefer header or the settings."""
        resumable = asked.admission.pipeline.settings.resumable_streams
        if resumable is None:
            resumable = self._always
        if not resumable and (head.prefer is None or not PREFERENCE.search(head.prefer)):
            return False
        return route.dialect.resumable and asked.is_streamed

    async def begin(self, route: Route, asked: ParsedRequest, method: str) -> tuple[EventReader, RawHeaders]:
        """Start a stream and wait for its first response.

        Raises Overloaded, or the error if the call fails before its first response.
        """
        stream = self._streams.begin(self._owner(route, asked.admission.caller))
        first = await self._streams.run(stream, asked, method, route.template)
        headers = [*asked.headers, APPLIED]
        if first is not None:
            try:
                headers += self._headers.collect(asked.admission, first.id, first.parameters)
            except BaseException:  # no client would ever read the stream
                stream.expire()
                raise
        return LocalReader(stream, 0, stream.opening), headers

    async def resume(self, head: Head, route: Route, caller: Caller) -> EventReader | None:
        """Return a reader for the rest of a stream, or None if no event is left.

        Raises Gone or InvalidRequest.
        """
        place = _parse_event_id(head)
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
        """Cancel a stream. Raises Gone or InvalidRequest."""
        place = _parse_event_id(head)
        owner = self._owner(route, caller)
        if place.front_end == self._peers.index:
            self._streams.find(place.id, owner).expire()
        else:
            await RemoteReader(self._peers, place, owner, self._tasks).release()

    def _owner(self, route: Route, caller: Caller) -> Owner:
        return route.model, route.version, self._credentials.of(caller.headers, caller.principal)

    def _find_for_peer(self, reading: RemoteReading) -> DetachedStream:
        """Find a stream of this process for a client of another front-end process. Raises Gone."""
        return self._streams.find(reading.id, reading.owner)

    async def _attach(self, question: AttachReader) -> bool:
        reading = question.reading
        stream = self._find_for_peer(reading)
        behind = stream.attach(reading.reader, reading.number)
        stream.leave(reading.reader, self._stall)
        return behind

    async def _leave(self, question: LeaveStream) -> None:
        self._find_for_peer(question.reading).leave(question.reading.reader)

    async def _expire(self, question: ReleaseStream) -> None:
        self._find_for_peer(question.reading).expire()

    async def _read_events(self, question: ReadEvents) -> RecordedEvents:
        reader, number = question.reading.reader, question.reading.number
        stream = self._find_for_peer(question.reading)
        stream.stop_expiry(reader)
        try:
            async with asyncio.timeout(CHECK_INTERVAL_SECONDS):
                events, last = await stream.read(reader, number)
            return RecordedEvents("events" if events else "ended", last, events)
        except TakenOver:
            return RecordedEvents("replaced", number, b"")
        except TimeoutError:
            return RecordedEvents("nothing", number, b"")
        finally:
            stream.leave(reader, self._stall)  # the other front-end process may crash without a message


def _parse_event_id(head: Head) -> EventPlace:
    """Parse the header Last-Event-ID. Raises InvalidRequest."""
    text = (head.last_event_id or b"").decode("latin-1")
    match = EVENT_ID.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"Last-Event-ID names no event of this server: {text[:100]!r}")
    id = match[1]
    return EventPlace(id, int(id.partition(".")[0]), int(match[2]))
