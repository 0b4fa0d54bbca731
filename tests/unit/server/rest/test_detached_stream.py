"""Streams that wait for their clients: who may read them, and when they are given up."""

import asyncio
from typing import Any, cast

import pytest

from inferstream.errors import Abandoned, Gone, InferenceFailed, InvalidRequest, Overloaded
from inferstream.server.rest.detached_stream import END, DetachedStream, HeldStreams, Owner, TakenOver
from inferstream.settings import Settings
from inferstream.telemetry.metrics import DoorMeters

OWNER: Owner = ("m", None, "alice")


def held(**settings: Any) -> HeldStreams:
    return HeldStreams(Settings(**settings), 0, DoorMeters())


def numbered(stream: DetachedStream, number: int, data: str) -> bytes:
    return f"id: {stream.id}:{number}\ndata: {data}\n\n".encode()


async def test_stream_is_visible_only_to_its_owner() -> None:
    streams = held()
    stream = streams.begin(OWNER)
    assert streams.find(stream.id, OWNER) is stream
    for id, owner in ((stream.id, ("m", None, "bob")), (stream.id, ("m", "1", "alice")), ("0.x", OWNER)):
        with pytest.raises(Gone, match="No such stream is held for this client"):
            streams.find(id, owner)
    stream.expire()
    assert len(streams) == 0
    with pytest.raises(Gone):
        streams.find(stream.id, OWNER)


async def test_held_streams_are_limited_and_finished_ones_are_evicted() -> None:
    streams = held(max_held_streams=2)
    first, second = streams.begin(OWNER), streams.begin(OWNER)
    with pytest.raises(Overloaded, match="2 streams are held already; the setting max_held_streams"):
        streams.begin(OWNER)
    second.recording.end()
    second.attach("reader", 0)
    second.leave("reader")
    assert second.over
    third = streams.begin(OWNER)
    first.delivered = True  # before one whose reader has left
    streams.begin(OWNER)
    assert {*streams._streams.values()} >= {third}
    assert not {first, second} & {*streams._streams.values()}


async def test_latest_reader_takes_over() -> None:
    stream = held().begin(OWNER)
    stream.recording.add(numbered(stream, 1, "a"))
    assert stream.attach("first", 0)
    assert await stream.read("first", 0) == (numbered(stream, 1, "a"), 1)
    waiting = asyncio.create_task(stream.read("first", 1))
    await asyncio.sleep(0)
    assert stream.attach("second", 0)
    with pytest.raises(TakenOver):
        await asyncio.wait_for(waiting, 10)
    assert await stream.read("second", 0) == (numbered(stream, 1, "a"), 1)
    with pytest.raises(InvalidRequest, match="none with the number 5"):
        stream.attach("third", 5)


async def test_fully_read_stream_cannot_be_resumed() -> None:
    stream = held().begin(OWNER)
    stream.recording.add(numbered(stream, 1, "a"))
    stream.recording.end()
    assert stream.attach("reader", 0)
    assert (await stream.read("reader", 0))[1] == 1
    assert not stream.delivered
    assert await stream.read("reader", 1) == (b"", 1)
    assert stream.delivered
    assert not stream.attach("again", 1)


class Timers:
    """Stands for the loop's timers."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Any]] = []

    def call_later(self, seconds: float, callback: Any) -> "Timers":
        self.timers.append((seconds, callback))
        return self

    def cancel(self) -> None:
        self.timers.pop()


async def test_unread_stream_expires_unless_a_reader_returns() -> None:
    streams = held(resume_timeout=7)
    stream, timers = streams.begin(OWNER), Timers()
    stream._loop = cast(asyncio.AbstractEventLoop, timers)
    stream.attach("reader", 0)
    assert timers.timers == []
    stream.leave("other")
    assert timers.timers == []
    stream.leave("reader")
    assert [seconds for seconds, _ in timers.timers] == [7]
    stream.stop_expiry("reader")
    assert timers.timers == []
    stream.leave("reader", after=2)
    [(seconds, expire)] = timers.timers
    assert seconds == 9
    expire()
    assert len(streams) == 0


class Admitted:
    """An admission whose call is ended."""

    def __init__(self) -> None:
        self.reasons: list[Exception] = []
        self.caller = self
        self.task = "of the request"

    def end(self, reason: Exception) -> None:
        self.reasons.append(reason)


class Asked:
    """A request whose call does what a test says."""

    def __init__(self, open: Any) -> None:
        self.admission = Admitted()
        self.open = open

    def failure(self, error: Exception) -> bytes:
        return b"event: error\ndata: 1\n\n"


async def test_failure_before_first_response_fails_the_request() -> None:
    async def fail() -> Any:
        raise InferenceFailed("broken")

    streams = held()
    asked: Any = Asked(fail)
    with pytest.raises(InferenceFailed, match="broken"):
        await streams.run(streams.begin(OWNER), asked, "POST", "/infer_stream")
    assert asked.admission.task is None, "the end of the request would end the stream"
    assert len(streams) == 0


async def test_unread_failure_is_recorded_before_the_end() -> None:
    async def fail() -> Any:
        raise InferenceFailed("broken")

    stream = held().begin(OWNER)
    await stream.run(cast(Any, Asked(fail)), None)
    assert stream.recording.ended
    events, last = stream.recording.read_after(0)
    first, second = events.split(b"\n\n")[:2]
    assert (last, first) == (2, f"id: {stream.id}:1\nevent: error\ndata: 1".encode())
    assert second + b"\n\n" == f"id: {stream.id}:2\n".encode() + END


async def test_expired_stream_ends_its_call() -> None:
    begun = asyncio.Event()

    async def hang() -> Any:
        begun.set()
        await asyncio.Event().wait()

    asked: Any = Asked(hang)
    stream = held().begin(OWNER)
    running = asyncio.create_task(stream.run(asked, None))
    await begun.wait()
    stream.expire()
    assert [type(reason) for reason in asked.admission.reasons] == [Abandoned]
    running.cancel()
    await asyncio.wait([running])
    assert stream.recording.ended
