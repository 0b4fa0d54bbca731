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


def test_what_follows_an_event() -> None:
    recording = filled(5)
    assert recording.after(0) == (b"ABCDE", 5)
    assert recording.after(3) == (b"DE", 5)
    assert recording.after(5) == (b"", 5)


def test_events_leave_together_up_to_a_size() -> None:
    recording = filled(3, size=TOGETHER_BYTES - 1)
    assert recording.after(0)[1] == 1
    large = filled(2, size=3 * TOGETHER_BYTES)
    assert large.after(0)[1] == 1
    assert filled(100, size=TOGETHER_BYTES // 10).after(0)[1] == 10


def test_what_does_not_leave_is_not_copied() -> None:
    recording, event = Recording(10**6, 10**9), b"x" * 1000
    for _ in range(50_000):
        recording.add(event)
    tracemalloc.start()
    try:
        assert recording.after(0)[1] == TOGETHER_BYTES // 1000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * TOGETHER_BYTES


async def test_the_memory_of_a_recording_is_what_its_objects_take() -> None:
    recording = Recording(10**6, 10**5)
    while not recording.full:
        recording.add(b"%d" % recording.last)
    taken = sum(map(sys.getsizeof, recording._events)) + 8 * len(recording._events)
    assert 10**5 <= taken < 10**5 + 100
    recording.after(recording.last)
    await recording.space()
    assert not recording.full
    taken = sum(map(sys.getsizeof, recording._events)) + 8 * len(recording._events)
    assert recording._size == taken


@pytest.mark.parametrize(("items", "room"), [(4, 10**6), (100, 4 + 4 * OVERHEAD)], ids=["items", "bytes"])
async def test_a_full_recording_waits_for_a_reader_and_drops_what_it_has(items: int, room: int) -> None:
    recording = filled(4, items, room)
    space = asyncio.ensure_future(recording.space())
    await asyncio.sleep(0)
    assert not space.done()
    recording.after(0)  # a reader that may not have got them yet
    await asyncio.sleep(0)
    assert not space.done()
    recording.after(2)
    await asyncio.wait_for(space, 5)
    recording.add(b"Z")
    assert recording.after(4) == (b"Z", 5)
    with pytest.raises(Gone, match="resume_items and resume_bytes"):
        recording.after(0)


async def test_a_recording_that_nobody_reads_any_more_holds_nothing_back() -> None:
    recording = filled(4, 4)
    space = asyncio.ensure_future(recording.space())
    await asyncio.sleep(0)
    recording.close()
    await asyncio.wait_for(space, 5)


def test_an_event_that_never_was() -> None:
    with pytest.raises(InvalidRequest, match="5 events so far, and none with the number 6"):
        filled(5).check(6)


async def test_a_reader_waits_for_news() -> None:
    recording = filled(0)
    for happen in (lambda: recording.add(b"A"), recording.end, recording.interrupt):
        waiting = asyncio.ensure_future(recording.news())
        await asyncio.sleep(0)
        assert not waiting.done()
        happen()
        await asyncio.wait_for(waiting, 5)
