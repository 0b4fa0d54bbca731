"""A load: who calls when, and what is counted of it."""

from collections.abc import Callable
from typing import Any

import pytest

from inferstream.errors import CallFailed
from inferstream.plugins.tools.bench import load
from inferstream.plugins.tools.bench.load import Items, LoadRun, Plan


class Clock:
    """Time that passes when somebody waits or a call runs."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(load, "perf_counter", made)
    monkeypatch.setattr(load.asyncio, "sleep", made.sleep)
    return made


class Caller:
    """A call takes a second of the clock, and streams two items."""

    def __init__(self, clock: Clock, failure: str = "") -> None:
        self.clock = clock
        self.failure = failure
        self.closed = False

    async def call(self, came: Callable[[int], None]) -> None:
        self.clock.now += 1.0
        if self.failure:
            raise CallFailed(self.failure)
        came(2)

    async def aclose(self) -> None:
        self.closed = True


async def test_callers_repeat_after_response_and_warm_up_is_excluded(
    clock: Clock,
) -> None:
    callers: list[Caller] = []
    run = LoadRun(Plan(1, None, 3.0, 2.0), lambda: callers.append(Caller(clock)) or callers[-1])
    seen = await run.run()
    assert [*seen.latencies] == [1.0] * 3
    assert (seen.items, [*seen.firsts], [*seen.gaps]) == (6, [1.0] * 3, [0.0] * 3)
    assert (seen.began, seen.ended) == (102.0, 105.0)
    assert [caller.closed for caller in callers] == [True]


async def test_failures_are_counted_by_name(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_FAILURES", 2)
    names = iter("abcabcabc")

    class Failing(Caller):
        async def call(self, came: Any) -> None:
            self.failure = next(names)
            await super().call(came)

    seen = await LoadRun(Plan(1, None, 6.0, 0.0), lambda: Failing(clock)).run()
    assert not seen.latencies
    assert dict(seen.failures) == {"a": 2, "b": 2, "others": 2}


async def test_latency_starts_at_scheduled_time(clock: Clock) -> None:
    seen = await LoadRun(Plan(1, 2.0, 2.0, 0.0), lambda: Caller(clock)).run()
    assert seen.due == 4
    assert min(seen.latencies) >= 1.0
    assert max(seen.latencies) > 1.0, "the only caller was busy when it fell due"


def test_simultaneous_items_have_zero_interval() -> None:
    times = iter((1.0, 3.0, 3.5))
    items = Items(lambda: next(times), 0.5)
    for count in (1, 3, 1):
        items.record(count)
    assert (items.count, items.first, items.gaps) == (5, 0.5, [2.0, 0.0, 0.0, 0.5])
