"""What all writers of responses share: turns, bytes that are owed, and clients that read nothing."""

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable
from time import perf_counter

import pytest

from inferstream.concurrency import outgoing
from inferstream.concurrency.outgoing import (
    OWED_BYTES,
    TOGETHER_BYTES,
    TURN_SECONDS,
    WAITED_SECONDS,
    Gathered,
    Owed,
    StallGuard,
    for_each,
)


class Numbers:
    """A reply of the numbers from 0, each of which takes `seconds` of the loop."""

    def __init__(self, many: int, seconds: float = 0.0) -> None:
        self._many = many
        self._seconds = seconds
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[int]:
        for number in range(self._many):
            end = perf_counter() + self._seconds
            while perf_counter() < end:
                pass
            if self.closed:
                return
            yield number

    async def aclose(self, error: BaseException | None) -> None:
        self.closed = True


async def test_response_callback_runs_before_the_next_response() -> None:
    log: list[object] = []

    async def rest(number: int) -> None:
        await asyncio.sleep(0)
        log.append(f"rest of {number}")

    def take(number: int) -> asyncio.Future[None] | None:
        log.append(number)
        return asyncio.ensure_future(rest(number)) if number == 1 else None

    await for_each(Numbers(3), take)
    assert log == [0, 1, "rest of 1", 2]


async def test_client_with_complete_response_closes_the_reply() -> None:
    reply = Numbers(10)
    taken: list[int] = []

    def take(number: int) -> object:
        taken.append(number)
        return reply.aclose(None) if number == 2 else None

    await for_each(reply, take)  # type: ignore[arg-type]
    assert taken == [0, 1, 2]


async def test_nonwaiting_stream_lets_others_run() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    await for_each(Numbers(4, 2 * TURN_SECONDS), lambda _: None)
    running.cancel()
    assert turns >= 3


class Reading:
    def __init__(self) -> None:
        self.held = False

    def hold(self, reason: Hashable) -> None:
        self.held = True

    def release(self, reason: Hashable) -> None:
        self.held = False


def test_reading_pauses_while_too_much_output_is_pending() -> None:
    reading = Reading()
    owed = Owed(reading)
    owed.add(OWED_BYTES)
    assert not reading.held
    owed.add(2)
    assert reading.held
    owed.add(-1)
    assert reading.held
    owed.add(-1)
    assert not reading.held
    owed.add(1)
    owed.clear()
    assert not reading.held


class Guarded(StallGuard):
    logger = logging.getLogger("inferstream.test")

    def __init__(self, looks: int) -> None:
        super().__init__(0.02, 0.001)
        self.looks = looks
        self.dropped = asyncio.Event()
        self._guard()

    def stop_reading(self) -> None:
        self._waiting_since = self._loop.time()

    def drop(self) -> None:
        self.dropped.set()

    def idle(self, now: float) -> bool:
        self.looks -= 1
        if not self.looks:
            self.stop_reading()
        return True


async def test_client_that_does_not_read_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    guarded = Guarded(3)
    async with asyncio.timeout(5):
        await guarded.dropped.wait()
    assert guarded.looks == 0
    assert "stream: client has not read for 0.02 s; closing the connection" in caplog.text


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1.0]
    monkeypatch.setattr(outgoing, "perf_counter", lambda: now[0])
    return now


def test_message_is_batched_unless_it_was_awaited(clock: list[float]) -> None:
    gathered = Gathered()
    assert not gathered.can_wait(1)
    assert gathered.can_wait(1)
    assert not gathered.can_wait(TOGETHER_BYTES + 1)
    clock[0] += 2 * WAITED_SECONDS
    assert gathered.can_wait(1, 3 * WAITED_SECONDS)
    clock[0] += 2 * WAITED_SECONDS
    assert not gathered.can_wait(1)


def test_no_message_waits_longer_than_one_loop_iteration(clock: list[float]) -> None:
    gathered = Gathered()
    gathered.can_wait(1)
    while gathered.can_wait(1):
        gathered.add(1, b"x")
        clock[0] += WAITED_SECONDS / 2
        assert clock[0] < 1.0 + 2 * TURN_SECONDS
    assert clock[0] > 1.0 + TURN_SECONDS
    assert set(gathered.take()) == {ord("x")}
    assert not gathered
    assert gathered.can_wait(1)


def test_large_output_is_sent_immediately() -> None:
    gathered = Gathered()
    gathered.add(TOGETHER_BYTES, b"a")
    assert not gathered.full
    gathered.add(1, b"b", b"c")
    assert gathered.full
    assert gathered.take() == b"abc"
    assert not gathered.full
