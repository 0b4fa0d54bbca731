"""The thread that acts while code of a model holds the event loop."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from inferstream.server import standin
from inferstream.server.standin import Hold, StandIn


class Counting:
    """A responder that takes three steps and counts them."""

    def __init__(self) -> None:
        self.steps = self.turns = 0
        self.holds: list[Hold] = []

    def respond(self, hold: Hold) -> Iterator[None]:
        self.holds.append(hold)
        for _ in range(3):
            self.steps += 1
            yield

    def turned(self) -> None:
        self.turns += 1


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def stand_in(counting: Counting) -> Iterator[StandIn]:
    stand_in = StandIn(60)
    stand_in.add(counting)
    yield stand_in
    stand_in.close()


LONG = standin.BLOCKED_AFTER + 4 * standin.LOOK_EVERY


def hold(seconds: float) -> None:
    """Hold the event loop for so long."""
    time.sleep(seconds)


def until(condition: Callable[[], object]) -> None:
    """Hold the event loop until then."""
    given_up = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < given_up
        hold(0.01)


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "stand-in"]


async def test_the_thread_acts_while_an_inference_holds_the_event_loop(
    stand_in: StandIn, counting: Counting
) -> None:
    stand_in.began()
    until(lambda: counting.steps >= 6)
    assert not counting.holds[0].loads
    assert counting.turns == 0
    stand_in.ended()
    steps = counting.steps
    hold(LONG)  # with other code
    assert counting.steps == steps
    await asyncio.sleep(0)
    assert counting.turns == 1


async def test_the_thread_acts_while_a_load_holds_the_event_loop(
    stand_in: StandIn, counting: Counting
) -> None:
    async def load() -> str:
        await asyncio.sleep(0)
        until(lambda: counting.holds)
        return "loaded"

    assert await stand_in.during(load()) == "loaded"
    assert counting.holds[0].loads


async def test_code_inside_other_code_does_not_end_its_hold(stand_in: StandIn, counting: Counting) -> None:
    stand_in.began()
    stand_in.began()
    stand_in.ended()
    until(lambda: counting.steps)
    stand_in.ended()
    assert len({*counting.holds}) == 1


async def test_several_stretches_of_one_turn_count_together(stand_in: StandIn, counting: Counting) -> None:
    for _ in range(8):
        stand_in.began()
        hold(standin.BLOCKED_AFTER / 4)
        stand_in.ended()
    stand_in.began()
    until(lambda: counting.holds)
    stand_in.ended()


async def test_the_thread_acts_for_no_longer_than_the_limit(counting: Counting) -> None:
    stand_in = StandIn(standin.BLOCKED_AFTER / 2)
    stand_in.add(counting)
    stand_in.began()
    hold(LONG)
    stand_in.ended()
    assert not counting.steps


async def test_nothing_follows_once_the_event_loop_goes_on(stand_in: StandIn) -> None:
    class Slow(Counting):
        def respond(self, hold: Hold) -> Iterator[None]:
            self.steps += 1
            yield
            stepped.set()
            self.steps += 1
            time.sleep(0.2)  # the lock is held: the event loop waits for the end of this step
            yield
            self.steps += 1

    stepped, slow = threading.Event(), Slow()
    stand_in.add(slow)
    stand_in.began()
    assert stepped.wait(10)
    stand_in.ended()
    assert slow.steps == 2


async def test_a_responder_that_fails_is_named_and_others_go_on(
    counting: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Counting):
        def respond(self, hold: Hold) -> Iterator[None]:
            yield
            raise ValueError("no socket")

    stand_in = StandIn(60)
    stand_in.add(Failing())
    stand_in.add(counting)
    with caplog.at_level(logging.ERROR, "inferstream.model"):
        stand_in.began()
        until(lambda: counting.steps >= 6)
        stand_in.ended()
    assert "no socket" in caplog.text


async def test_the_thread_ends_when_nothing_needs_it_and_starts_again(
    stand_in: StandIn, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standin, "LINGERING", 0.0)
    before = threads()  # those of other tests may still be ending
    for times in (1, 2):
        stand_in.began()
        (thread,) = [thread for thread in threads() if thread not in before]
        until(lambda times=times: len({*counting.holds}) == times)  # type: ignore[misc]
        stand_in.ended()
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()


async def test_a_load_that_only_waits_is_no_hold(stand_in: StandIn, counting: Counting) -> None:
    loaded = asyncio.Event()
    loading = [asyncio.create_task(stand_in.during(loaded.wait())) for _ in range(2)]
    await asyncio.sleep(0)
    hold(LONG)  # what is none of the load's
    assert not counting.steps
    loaded.set()
    await asyncio.gather(*loading)


async def test_a_load_that_fails_or_is_cancelled_does_so_as_ever(stand_in: StandIn) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no weights")

    with pytest.raises(ValueError, match="no weights"):
        await stand_in.during(fails())
    loading = asyncio.create_task(stand_in.during(asyncio.Event().wait()))
    await asyncio.sleep(0)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading


async def test_a_stop_ends_the_thread_and_starts_no_other(stand_in: StandIn) -> None:
    stand_in.began()
    stand_in.ended()
    assert threads()
    stand_in.close()
    assert not threads()
    stand_in.began()
    stand_in.ended()
    assert not threads()
