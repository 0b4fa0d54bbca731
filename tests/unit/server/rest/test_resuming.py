"""Streams whose reader is at another front end than their recording."""

import asyncio
from types import SimpleNamespace
from typing import TypeVar, cast

import pytest

from inferstream.concurrency.tasks import Tasks
from inferstream.dataplane.cancelling import Credentials
from inferstream.dataplane.dataplane import DataPlane
from inferstream.dataplane.peers import Peers
from inferstream.errors import Gone
from inferstream.processes.frames import PeerQuestion
from inferstream.server.rest import resuming
from inferstream.server.rest.detached_stream import DetachedStream, Owner
from inferstream.server.rest.resuming import EventPlace, RemoteReader, Resuming
from inferstream.settings import Settings
from inferstream.telemetry.metrics import DoorMeters

A = TypeVar("A")

OWNER: Owner = ("model", None, "")


def held(settings: Settings) -> tuple[DetachedStream, RemoteReader]:
    """A stream without a call at front end 0, and a reader of front end 1."""
    here = Peers(0, 2)
    dataplane = cast(DataPlane, SimpleNamespace(peers=here, credentials=Credentials([])))
    at_work = Resuming(dataplane, settings, DoorMeters(), lambda response, model: [])
    stream = at_work._streams.begin(OWNER)

    async def ask(front_end: int, question: PeerQuestion[A]) -> A:
        return await here.ask(front_end, question)

    return stream, reader_of(stream.id, Peers(1, 2, ask))


def reader_of(id: str, peers: Peers) -> RemoteReader:
    return RemoteReader(peers, EventPlace(id, 0, 0), OWNER, Tasks())


async def test_actively_read_stream_does_not_expire() -> None:
    stream, reader = held(Settings(stream_stall_timeout=0.05, resume_timeout=0.05))
    assert await reader.attach()
    reading = asyncio.ensure_future(reader.read())
    await asyncio.sleep(0.3)  # three times what a stream waits for a reader that is gone
    stream.recording.add(b"data: 1\n\n")
    assert await asyncio.wait_for(reading, 5) == b"data: 1\n\n"


async def test_stream_expires_after_its_reader_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "CHECK_INTERVAL_SECONDS", 0.01)
    _, reader = held(Settings(stream_stall_timeout=0.05, resume_timeout=0.05))
    assert await reader.attach()
    reading = asyncio.ensure_future(reader.read())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.sleep(0.5)
    with pytest.raises(Gone):
        await reader.read()


async def test_hung_front_end_ends_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "CHECK_INTERVAL_SECONDS", 0.02)
    monkeypatch.setattr(resuming, "SPARE", 0.02)

    async def hang(front_end: int, question: PeerQuestion[A]) -> A:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(Gone, match="front end 0 has not answered"):
        await asyncio.wait_for(reader_of("0.id", Peers(1, 2, hang)).attach(), 5)
