"""Streams that outlive their connections: each is recorded, and its client may come back for the rest."""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_urlsafe
from time import perf_counter

from ...concurrency.outgoing import give
from ...concurrency.tasks import Tasks
from ...dataplane.admission import Admission
from ...dataplane.reply import AtEnd, Reply
from ...errors import Abandoned, Gone, Overloaded
from ...protos import sse
from ...settings import Settings
from ...telemetry.metrics import DoorMeters
from ...types import InferenceResponse
from .dialects.base import ParsedRequest
from .messages import wrap
from .recording import Recording

RETRY = 500
"""Milliseconds after which an `EventSource` connects again."""

END = sse.named_event("end", b"{}")

Owner = tuple[str, str | None, str]
"""Model, version and credentials of the request that began a stream. Who resumes it names the same."""


class TakenOver(Exception):
    """Another connection reads the stream now."""


class HeldStream:
    """One stream, run by a task of its own and read by at most one connection at a time.

    The model goes on for `timeout` seconds without a reader. The recording stays as long after the end.
    """

    def __init__(
        self, id: str, owner: Owner, settings: Settings, forget: Callable[["HeldStream"], None]
    ) -> None:
        self.id = id
        self.owner = owner
        self.recording = Recording(settings.resume_items, settings.resume_bytes)
        self.began = perf_counter()
        self._prefix = f"id: {id}:".encode()
        self._timeout = settings.resume_timeout
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._admission: Admission | None = None
        self._expired = False
        self._reader: object = None
        self._timer: asyncio.TimerHandle | None = None
        self.delivered = False
        """Whether a reader has taken everything."""
        self._left = False

    @property
    def over(self) -> bool:
        """Whether the stream has ended, and nobody reads its rest."""
        return self._left and self.recording.ended

    @property
    def opening(self) -> bytes:
        """What precedes the events on the first connection. An `EventSource` resumes from here too."""
        return b"retry: %d\n%b0\n\n" % (RETRY, self._prefix)

    async def run(
        self, asked: ParsedRequest, opened: "asyncio.Future[InferenceResponse | None] | None"
    ) -> None:
        """Record all responses to a request. `opened` gets the first one, or the error before it."""
        admission = self._admission = asked.admission
        admission.caller.task = None  # that of the request, which ends with its connection
        try:
            if self._expired:
                raise Abandoned
            async with await asked.open() as reply:
                if opened is not None and not opened.done():
                    opened.set_result(reply.first)
                opened = None  # it keeps the first response
                await self._record(reply, asked)
        except Exception as error:
            if opened is None or opened.done():
                last = asked.failure(wrap(error))
                assert last is not None  # what may be resumed is events
                self._add(last)
            else:
                opened.set_exception(error)
        finally:
            self._admission = None
            self._add(END)
            self.recording.end()

    async def _record(self, reply: Reply, asked: ParsedRequest) -> None:
        reply.watch(AtEnd(lambda _: self.recording.close()))  # a failure is recorded, however full it is
        write, usage = asked.events(), asked.admission.usage

        def add(events: bytes) -> None:
            self._add(events)
            if usage is not None:
                usage.sent += len(events)

        def record(response: InferenceResponse) -> Awaitable[None] | None:
            event = write(response)
            if event is None:
                return reply.aclose(None)
            add(event)
            return self.recording.space() if self.recording.full else None

        await give(reply, record)
        add(write.end())

    def _add(self, events: bytes) -> None:
        """Record each event on its own: an id stands for one."""
        recording = self.recording
        if events.count(b"\n\n") == 1:
            recording.add(b"%b%d\n%b" % (self._prefix, recording.last + 1, events))
            return
        for event in events.split(b"\n\n"):
            if event:
                recording.add(b"%b%d\n%b\n\n" % (self._prefix, recording.last + 1, event))

    def attach(self, reader: object, number: int) -> bool:
        """Let `reader` read what follows an event, in place of any other; False if nothing does.

        Raises Gone, InvalidRequest.
        """
        recording = self.recording
        recording.check(number)
        self._stop_timer()
        self._reader = reader
        self._left = False
        recording.interrupt()  # a reader before this one finds that it is none any more
        return not (recording.ended and number == recording.last)

    async def read(self, reader: object, number: int) -> tuple[bytes, int]:
        """The events after this one and the number of the last of them; no event at the end.

        Raises Gone, TakenOver.
        """
        recording = self.recording
        while True:
            if self._reader != reader:
                raise TakenOver
            events, last = recording.after(number)
            if events:
                return events, last
            if recording.ended:
                self.delivered = True
                return b"", last
            await recording.news()

    def stay(self, reader: object) -> None:
        """The reader's connection is there: a read may take longer than a connection may be gone."""
        if self._reader == reader:
            self._stop_timer()

    def leave(self, reader: object, after: float = 0.0) -> None:
        """The reader's connection has ended, or ends within `after` seconds unless it attaches again."""
        if self._reader == reader:
            self._left = not after
            self._stop_timer()
            self._timer = self._loop.call_later(after + self._timeout, self.expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def expire(self) -> None:
        """Forget the stream, and end its call: nobody reads it any more."""
        self._stop_timer()
        self._expired = True
        self._reader = None
        self.recording.close()
        self._forget(self)
        if self._admission is not None:
            self._admission.end(Abandoned())


class HeldStreams:
    """The streams of one front end that may be resumed, at most `max_held_streams`."""

    def __init__(self, settings: Settings, index: int, meters: DoorMeters) -> None:
        self._settings = settings
        self._meters = meters
        self._index = index
        self._streams: dict[str, HeldStream] = {}
        self._tasks = Tasks()

    def __len__(self) -> int:
        return len(self._streams)

    def begin(self, owner: Owner) -> HeldStream:
        """A stream that is to be run. Raises Overloaded."""
        most = self._settings.max_held_streams
        if len(self._streams) >= most:
            streams = self._streams.values()
            done = next((stream for stream in streams if stream.delivered), None)
            done = done or next((stream for stream in streams if stream.over), None)
            if done is None:
                raise Overloaded(
                    f"{most} streams are held already; the setting max_held_streams limits them."
                )
            done.expire()
        stream = HeldStream(f"{self._index}.{token_urlsafe(15)}", owner, self._settings, self._forget)
        self._streams[stream.id] = stream
        self._meters.held += 1
        return stream

    async def run(
        self, stream: HeldStream, asked: ParsedRequest, method: str, template: str
    ) -> InferenceResponse | None:
        """Run a stream in a task of its own; the first response, if any. Raises what precedes it."""
        opened: asyncio.Future[InferenceResponse | None] = asyncio.get_running_loop().create_future()
        running = self._tasks.start(stream.run(asked, opened))
        try:
            first = await opened
        except BaseException:  # a client that leaves before it has an id cannot come back
            stream.expire()
            raise
        self._meters.in_progress += 1
        running.add_done_callback(lambda _: self._count(stream, template, method))
        return first

    def _count(self, stream: HeldStream, template: str, method: str) -> None:
        """Count the request at the end of its stream: all its connections are one request."""
        self._meters.in_progress -= 1
        self._meters.requests[method, template, "200"].observe(perf_counter() - stream.began)

    def find(self, id: str, owner: Owner) -> HeldStream:
        """Raises Gone for a stream that is not held, and for one of another client."""
        stream = self._streams.get(id)
        if stream is None or stream.owner != owner:
            raise Gone(
                "No such stream is held for this client: it waited longer than resume_timeout, "
                "or its first request had other credentials (the setting credential_headers names them)."
            )
        return stream

    def _forget(self, stream: HeldStream) -> None:
        if self._streams.pop(stream.id, None) is not None:
            self._meters.held -= 1
