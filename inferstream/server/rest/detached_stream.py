"""Resumable streams. Each is recorded, so that a client can reconnect and read the rest."""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_urlsafe
from time import perf_counter

from ...concurrency.outgoing import for_each
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
"""Reconnection delay of an `EventSource` in milliseconds."""

END = sse.named_event("end", b"{}")

Owner = tuple[str, str | None, str]
"""Model, version and credentials of the request that started a stream. A request to resume it must match."""


class TakenOver(Exception):
    """Another connection is reading the stream now."""


class DetachedStream:
    """One stream with its own task, read by at most one connection at a time.

    Without a reader, the stream continues for `resume_timeout` seconds. Its recording is available for the
    same time after the stream ends.
    """

    def __init__(
        self, id: str, owner: Owner, settings: Settings, forget: Callable[["DetachedStream"], None]
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
        """Whether a reader has received everything."""
        self._left = False

    @property
    def over(self) -> bool:
        """Whether the stream has ended and no client is connected to read the rest."""
        return self._left and self.recording.ended

    @property
    def opening(self) -> bytes:
        """The start of the body: the reconnection delay, and an event id from which a client can resume."""
        return b"retry: %d\n%b0\n\n" % (RETRY, self._prefix)

    async def run(
        self, asked: ParsedRequest, opened: "asyncio.Future[InferenceResponse | None] | None"
    ) -> None:
        """Run the call and record its responses. `opened` receives the first response or an earlier error."""
        admission = self._admission = asked.admission
        admission.caller.task = None  # the task of the request, which ends with its connection
        try:
            if self._expired:
                raise Abandoned
            async with await asked.open() as reply:
                if opened is not None and not opened.done():
                    opened.set_result(reply.first)
                opened = None  # it holds the first response in memory
                await self._record(reply, asked)
        except Exception as error:
            if opened is None or opened.done():
                last = asked.failure(wrap(error))
                assert last is not None  # resumable streams are event streams
                self._add(last)
            else:
                opened.set_exception(error)
        finally:
            self._admission = None
            self._add(END)
            self.recording.end()

    async def _record(self, reply: Reply, asked: ParsedRequest) -> None:
        reply.watch(AtEnd(lambda _: self.recording.close()))  # errors are recorded even if it is full
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
            return self.recording.wait_for_space() if self.recording.full else None

        await for_each(reply, record)
        add(write.end())

    def _add(self, events: bytes) -> None:
        """Record each event separately, because each needs its own id."""
        recording = self.recording
        if events.count(b"\n\n") == 1:
            recording.add(b"%b%d\n%b" % (self._prefix, recording.last + 1, events))
            return
        for event in events.split(b"\n\n"):
            if event:
                recording.add(b"%b%d\n%b\n\n" % (self._prefix, recording.last + 1, event))

    def attach(self, reader: object, number: int) -> bool:
        """Make `reader` the reader of the events after event `number`, replacing any other reader.

        Returns False if the stream has ended at that event. Raises Gone or InvalidRequest.
        """
        recording = self.recording
        recording.check(number)
        self._stop_timer()
        self._reader = reader
        self._left = False
        recording.interrupt()  # wakes the previous reader, which then raises TakenOver
        return not (recording.ended and number == recording.last)

    async def read(self, reader: object, number: int) -> tuple[bytes, int]:
        """Wait for the events after event `number`.

        Returns them and the number of the last one. At the end of the stream, the events are empty. Raises
        Gone, or TakenOver if another reader is attached.
        """
        recording = self.recording
        while True:
            if self._reader != reader:
                raise TakenOver
            events, last = recording.read_after(number)
            if events:
                return events, last
            if recording.ended:
                self.delivered = True
                return b"", last
            await recording.wait_for_news()

    def stop_expiry(self, reader: object) -> None:
        """Stop the expiry timer while the reader waits: a read may take longer than `resume_timeout`."""
        if self._reader == reader:
            self._stop_timer()

    def leave(self, reader: object, after: float = 0.0) -> None:
        """Start the expiry timer, because the connection of `reader` has ended.

        With `after`, the connection counts as ended after that many seconds unless it attaches again.
        """
        if self._reader == reader:
            self._left = not after
            self._stop_timer()
            self._timer = self._loop.call_later(after + self._timeout, self.expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def expire(self) -> None:
        """Forget the stream and cancel its call, because no client reads it any longer."""
        self._stop_timer()
        self._expired = True
        self._reader = None
        self.recording.close()
        self._forget(self)
        if self._admission is not None:
            self._admission.end(Abandoned())


class HeldStreams:
    """The resumable streams of one front-end process, at most `max_held_streams`."""

    def __init__(self, settings: Settings, index: int, meters: DoorMeters) -> None:
        self._settings = settings
        self._meters = meters
        self._index = index
        self._streams: dict[str, DetachedStream] = {}
        self._tasks = Tasks()

    def __len__(self) -> int:
        return len(self._streams)

    def begin(self, owner: Owner) -> DetachedStream:
        """Create a stream, which `run` then starts. Raises Overloaded if no stream can be replaced.

        At the limit, it replaces a stream that has been read completely, or has ended and has no reader.
        """
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
        stream = DetachedStream(f"{self._index}.{token_urlsafe(15)}", owner, self._settings, self._forget)
        self._streams[stream.id] = stream
        self._meters.held += 1
        return stream

    async def run(
        self, stream: DetachedStream, asked: ParsedRequest, method: str, template: str
    ) -> InferenceResponse | None:
        """Run a stream in its own task and return its first response, if any.

        Raises the error if the call fails before its first response.
        """
        opened: asyncio.Future[InferenceResponse | None] = asyncio.get_running_loop().create_future()
        running = self._tasks.start(stream.run(asked, opened))
        try:
            first = await opened
        except BaseException:  # without an id, the client cannot resume
            stream.expire()
            raise
        self._meters.in_progress += 1
        running.add_done_callback(lambda _: self._count(stream, template, method))
        return first

    def _count(self, stream: DetachedStream, template: str, method: str) -> None:
        """Count the request when the stream ends. All of its connections count as one request."""
        self._meters.in_progress -= 1
        self._meters.requests[method, template, "200"].observe(perf_counter() - stream.began)

    def find(self, id: str, owner: Owner) -> DetachedStream:
        """Return a stream by id. Raises Gone if it does not exist or belongs to another client."""
        stream = self._streams.get(id)
        if stream is None or stream.owner != owner:
            raise Gone(
                "No such stream is held for this client: it waited longer than resume_timeout, "
                "or its first request had other credentials (the setting credential_headers names them)."
            )
        return stream

    def _forget(self, stream: DetachedStream) -> None:
        if self._streams.pop(stream.id, None) is not None:
            self._meters.held -= 1
