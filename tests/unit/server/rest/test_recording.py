"""What a recording has for whom, and when it holds the model back."""

import asyncio
import sys
import tracemalloc

import pytest

from inferstream.concurrency.outgoing import TOGETHER_BYTES
from inferstream.errors import Gone, InvalidRequest
from inferstream.server.rest.recording import OVERHEAD, Recording


def filled(count: int, items: int = 100, room: int = 10**6, size: int = 1) -> Recording:
    recording = Recording(items, room)
    for number in range(count):
        recording.add(bytes([65 + number % 26]) * size)
    return recording


def test_events_after_an_id() -> None:
    recording = filled(5)
    assert recording.read_after(0) == (b"ABCDE", 5)
    assert recording.read_after(3) == (b"DE", 5)
    assert recording.read_after(5) == (b"", 5)


def test_events_are_combined_up_to_a_size() -> None:
    recording = filled(3, size=TOGETHER_BYTES - 1)
    assert recording.read_after(0)[1] == 1
    large = filled(2, size=3 * TOGETHER_BYTES)
    assert large.read_after(0)[1] == 1
    assert filled(100, size=TOGETHER_BYTES // 10).read_after(0)[1] == 10


def test_unsent_events_are_not_copied() -> None:
    recording, event = Recording(10**6, 10**9), b"x" * 1000
    for _ in range(50_000):
        recording.add(event)
    tracemalloc.start()
    try:
        assert recording.read_after(0)[1] == TOGETHER_BYTES // 1000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * TOGETHER_BYTES


async def test_recording_size_is_the_size_of_its_objects() -> None:
    recording = Recording(10**6, 10**5)
    while not recording.full:
        recording.add(b"%d" % recording.last)
    taken = sum(map(sys.getsizeof, recording._events)) + 8 * len(recording._events)
    assert 10**5 <= taken < 10**5 + 100
    recording.read_after(recording.last)
    await recording.wait_for_space()
    assert not recording.full
    taken = sum(map(sys.getsizeof, recording._events)) + 8 * len(recording._events)
    assert recording._size == taken


@pytest.mark.parametrize(("items", "room"), [(4, 10**6), (100, 4 + 4 * OVERHEAD)], ids=["items", "bytes"])
async def test_full_recording_waits_for_a_reader_and_drops_read_events(items: int, room: int) -> None:
    recording = filled(4, items, room)
    space = asyncio.ensure_future(recording.wait_for_space())
    await asyncio.sleep(0)
    assert not space.done()
    recording.read_after(0)  # a reader that may not have got them yet
    await asyncio.sleep(0)
    assert not space.done()
    recording.read_after(2)
    await asyncio.wait_for(space, 5)
    recording.add(b"Z")
    assert recording.read_after(4) == (b"Z", 5)
    with pytest.raises(Gone, match="resume_items and resume_bytes"):
        recording.read_after(0)


async def test_abandoned_recording_does_not_block() -> None:
    recording = filled(4, 4)
    space = asyncio.ensure_future(recording.wait_for_space())
    await asyncio.sleep(0)
    recording.close()
    await asyncio.wait_for(space, 5)


def test_unknown_event_id_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="5 events so far, and none with the number 6"):
        filled(5).check(6)


async def test_reader_waits_for_changes() -> None:
    recording = filled(0)
    for happen in (lambda: recording.add(b"A"), recording.end, recording.interrupt):
        waiting = asyncio.ensure_future(recording.wait_for_news())
        await asyncio.sleep(0)
        assert not waiting.done()
        happen()
        await asyncio.wait_for(waiting, 5)
