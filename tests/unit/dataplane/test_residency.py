"""Which models are in memory, and which leave: by the rules, whatever happens in between."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from inferstream.dataplane.access import evicts_var
from inferstream.dataplane.residency import HOST, Bytes, Residency, Resident
from inferstream.errors import ModelLoadFailed
from inferstream.processes.errors import OutOfMemory

STEPS = int(os.environ.get("RESIDENCY_STEPS", "4000"))
"""Steps of the random walk; the long form has 1,000,000 (`make residency`)."""


class FakeHome:
    """Workers with `size` bytes, which take a few turns of the loop to come and to go."""

    def __init__(self, number: int, size: int, memory: dict[int, int]) -> None:
        self.number = number
        self.size = size
        self.memory = memory
        self.fails = 0
        self.turns = 1
        self.brought = 0
        self.busy = False
        self.running = 0
        """Calls that run in it."""

    def processes(self) -> list[int]:
        return [self.number]

    async def start(self) -> None:
        assert not self.busy, "a double load"
        assert self.number not in self.memory, "a double load"
        self.busy = True
        self.memory[self.number] = self.size
        try:
            for _ in range(self.turns):
                await asyncio.sleep(0)
            if self.fails:
                self.fails -= 1
                raise ModelLoadFailed("it does not load")
            self.brought += 1
        except BaseException:
            del self.memory[self.number]
            raise
        finally:
            self.busy = False

    async def stop(self) -> None:
        assert not self.busy
        assert self.number in self.memory
        assert not self.running, "an eviction in use"
        self.busy = True
        for _ in range(self.turns):
            await asyncio.sleep(0)
        del self.memory[self.number]
        self.busy = False


class House:
    """Models of the given sizes under a limit, on a clock that the test moves."""

    def __init__(self, limit: int, *sizes: int, idle: float | None = None) -> None:
        self.now = 0.0
        self.memory: dict[int, int] = {}
        self.residency = Residency({HOST: limit}, idle, self.measure, clock=lambda: self.now)
        self.homes = [FakeHome(number, size, self.memory) for number, size in enumerate(sizes)]
        self.models = [self.add(home) for home in self.homes]

    def measure(self, processes: Sequence[int]) -> Bytes:
        return {HOST: sum(self.memory.get(each, 0) for each in processes)}

    def add(self, home: FakeHome, pinned: bool = False) -> Resident:
        return self.residency.add((f"m{home.number}", None), home, pinned)

    async def use(self, number: int) -> None:
        self.now += 1
        await self.models[number].enter()
        assert number in self.memory
        self.models[number].leave()

    @property
    def there(self) -> list[int]:
        return sorted(self.memory)


async def test_least_recently_used_model_is_evicted_first() -> None:
    house = House(300, 100, 100, 100, 100)
    for number in (0, 1, 2, 0, 3):
        await house.use(number)
    assert house.there == [0, 2, 3]
    assert (house.models[1].meters.loads, house.models[1].meters.evictions) == (1, 1)
    assert [model.meters.loaded for model in house.models] == [1, 0, 1, 1]
    assert [model.meters.memory for model in house.models] == [100, 0, 100, 100]


async def test_concurrent_calls_share_one_load() -> None:
    house = House(300, 100)
    await asyncio.gather(*(house.use(0) for _ in range(20)))
    assert house.homes[0].brought == 1
    assert house.models[0].meters.waits.count == 20


async def test_busy_and_pinned_models_are_not_evicted() -> None:
    house = House(300, 100, 100, 100, 100)
    house.models[0].pinned = True
    for number in range(3):
        await house.use(number)
    await house.models[1].enter()
    await house.use(3)
    assert house.there == [0, 1, 3]


async def test_load_waits_until_a_busy_model_is_idle() -> None:
    house = House(200, 100, 100, 100)
    for number in range(3):
        await house.use(number)  # so that the sizes are known
    await house.models[1].enter()
    await house.models[2].enter()
    waiting = asyncio.create_task(house.use(0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert house.there == [1, 2]
    house.models[1].leave()
    await waiting
    assert house.there == [0, 2]


async def test_model_too_large_for_memory_is_refused_with_reason() -> None:
    house = House(300, 200, 400, 150)
    house.models[0].pinned = True
    await house.use(0)
    with pytest.raises(OutOfMemory, match=r"m1 needs 0 MB of memory, and the limit is 0 MB, of which m0,"):
        await house.use(1)  # found out by its first load
    assert house.there == [0]
    assert house.homes[1].brought == 1
    with pytest.raises(OutOfMemory):
        await house.use(1)
    assert house.homes[1].brought == 1, "it is not tried again"


async def test_unauthorized_call_evicts_no_model() -> None:
    house = House(300, 100, 100, 100, 100)
    await house.use(0)

    async def spare(number: int) -> None:
        evicts_var.set(False)
        await house.use(number)

    for number in (1, 2):
        await asyncio.create_task(spare(number))
    with pytest.raises(OutOfMemory, match="Idle models leave for a key with the scope repository"):
        await asyncio.create_task(spare(3))
    assert house.there == [0, 1, 2]
    await house.use(3)
    assert house.there == [1, 2, 3]


async def test_model_larger_than_estimated_is_evicted() -> None:
    house = House(300, 100, 150, 160)
    for number in (0, 1):
        await house.use(number)
    house.models[2].size = {HOST: 50}  # what it had before

    async def spare() -> None:
        evicts_var.set(False)
        await house.use(2)

    for _ in range(2):  # the second time its size is known
        with pytest.raises(OutOfMemory):
            await asyncio.create_task(spare())
        assert house.there == [0, 1]
    assert house.models[2].meters.loads == 1


@pytest.mark.parametrize("calls_evict", [False, True])
async def test_calls_evict_no_model_without_the_setting(calls_evict: bool) -> None:
    house = House(100, 100, 100)
    house.residency.calls_evict = calls_evict
    await asyncio.create_task(house.use(0))
    if calls_evict:
        await asyncio.create_task(house.use(1))
        return
    with pytest.raises(OutOfMemory):
        await asyncio.create_task(house.use(1))
    await house.residency.load(house.models[1])
    assert house.there == [1], "a load that is no call's"


async def test_refusal_names_models_only_if_permitted() -> None:
    house = House(200, 100, 150)
    await house.models[0].enter()
    for names in (True, False):
        house.residency._names_models = names
        house.models[1].size = {HOST: 150}
        house.models[0].pinned = True
        with pytest.raises(OutOfMemory) as refused:
            await house.use(1)
        assert ("m0" in refused.value.message) is names


async def test_load_times_out_if_no_model_becomes_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferstream.dataplane.residency.PATIENCE", 0.0)
    house = House(100, 100, 100)
    await house.use(1)
    await house.models[0].enter()
    with pytest.raises(OutOfMemory, match="m0, in use or pinned"):
        await house.use(1)


async def test_failed_load_fails_all_waiters_and_next_call_retries() -> None:
    house = House(300, 100)
    house.homes[0].fails = 1
    outcomes = await asyncio.gather(*(house.use(0) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in outcomes] == [ModelLoadFailed] * 3
    await house.use(0)
    assert house.there == [0]
    assert house.models[0].users == 0


async def test_cancelled_call_does_not_cancel_the_shared_load() -> None:
    house = House(300, 100)
    house.homes[0].turns = 5
    first, second = (asyncio.create_task(house.use(0)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert house.homes[0].brought == 1
    assert house.models[0].users == 0


async def test_idle_model_is_unloaded_unless_pinned() -> None:
    house = House(300, 100, 100, idle=10)
    await house.use(0)
    await house.use(1)
    house.models[1].keep = None
    house.now += 9
    await house.residency.check()
    assert house.there == [0, 1]
    house.now += 2
    await house.residency.check()
    while 0 in house.memory:
        await asyncio.sleep(0)
    assert house.there == [1]


async def test_grown_model_evicts_others() -> None:
    house = House(300, 100, 100, 100)
    for number in range(3):
        await house.use(number)
    house.memory[2] = 180
    await house.residency.check()
    assert house.there == [2, 1] or house.there == [1, 2]


async def test_idle_models_are_evicted_when_memory_runs_out() -> None:
    house = House(300, 100, 100)
    await house.use(0)
    await house.models[1].enter()
    await house.residency.relieve()
    assert house.there == [1]


async def test_model_is_removed_during_load_and_eviction() -> None:
    house = House(300, 100, 100)
    house.homes[0].turns = 50
    call = asyncio.create_task(house.use(0))
    for _ in range(5):
        await asyncio.sleep(0)
    await house.residency.remove(house.models[0])
    assert call.cancelled() or call.done() or await asyncio.wait([call])
    assert house.there == []
    assert house.models[0] not in house.residency.residents
    await house.use(1)
    leaving = asyncio.create_task(house.residency.relieve())
    await asyncio.sleep(0)
    await house.residency.remove(house.models[1])
    assert house.there == []
    await leaving


async def test_size_of_refused_model_is_kept_until_its_next_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inferstream.dataplane.residency.MAX_SIZES", 1)
    house = House(300, 100, 400)
    await house.use(0)
    for _ in range(2):  # each first call makes a new resident
        with pytest.raises(OutOfMemory, match="m1"):
            await house.use(1)
        await house.residency.remove(house.models[1])
        house.models[1] = house.add(house.homes[1])
        await house.use(0)
    assert [home.brought for home in house.homes] == [1, 1]
    await house.residency.remove(house.models[0])
    assert not house.add(house.homes[1]).size, "the sizes are bounded"
    house.models[0] = house.add(house.homes[0])
    assert house.models[0].size
    house.residency.forget("m0")
    assert not house.add(house.homes[0]).size


async def test_call_at_the_end_of_an_abandoned_load_starts_another() -> None:
    """A model that nobody waits for any more may leave again before the end of its load is told."""
    house = House(300, 100)
    model = house.models[0]
    ended = asyncio.create_task(asyncio.sleep(0))
    await ended
    model.coming = ended  # its callback is not called
    await house.use(0)  # it would never give the loop a turn
    assert house.homes[0].brought == 1
    assert model.coming is None


class Walk:
    """Random calls, evictions, unloads, reloads, failed loads and crashes, one step after the other."""

    LIMIT = 500

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.house = House(self.LIMIT, *(self.random.randrange(50, 160) for _ in range(12)), idle=400)
        self.calls: set[asyncio.Task[None]] = set()
        self.ended: Counter[str] = Counter()
        self.using: Counter[int] = Counter()
        self.closed: set[int] = set()
        """Models that are being unloaded or reloaded, so that calls find none."""

    def _there(self, resident: Resident) -> bool:
        return resident.home.processes()[0] in self.house.memory

    async def run(self, steps: int) -> None:
        for number in range(12):
            await self.house.use(number)
        for _ in range(steps):
            self.house.now += self.random.random()
            await self._step()
            assert sum(self.house.memory.values()) <= self.LIMIT, "above the limit"
        while self.calls:
            await asyncio.wait(self.calls)
        async with asyncio.timeout(30):  # what is leaving is still there
            while any(each.loaded != self._there(each) for each in self.house.models):
                await asyncio.sleep(0)
        for each in self.house.models:
            assert each.users == 0
            assert each.loaded == self._there(each)
            assert each.meters.loaded == each.loaded

    async def _step(self) -> None:
        match self.random.choices(
            ("call", "look", "relieve", "reload", "fail", "cancel"), (80, 3, 0.5, 2, 2, 2)
        )[0]:
            case "call":
                self._start(self._call(min(int(self.random.paretovariate(0.8)) - 1, 11)))
            case "look":
                await self.house.residency.check()
            case "relieve":
                self._start(self.house.residency.relieve())
            case "reload":
                self._start(self._reload(self.random.randrange(12)))
            case "fail":
                self.random.choice(self.house.homes).fails += 1
            case "cancel":
                if (
                    self.calls
                    and (call := self.random.choice(sorted(self.calls, key=id))).get_name() == "call"
                ):
                    call.cancel()
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)

    def _start(self, coroutine) -> None:
        name = "call" if coroutine.__name__ == "_call" else "other"
        task = asyncio.create_task(coroutine, name=name)
        self.calls.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.calls.discard(task)
        error = None if task.cancelled() else task.exception()
        self.ended["cancelled" if task.cancelled() else type(error).__name__] += 1

    async def _call(self, number: int) -> None:
        if number in self.closed:
            return
        self.using[number] += 1
        try:
            model = self.house.models[number]
            await model.enter()
            self.house.homes[number].running += 1
            try:
                for _ in range(self.random.randrange(6)):
                    assert number in self.house.memory
                    assert not self.house.homes[number].busy
                    await asyncio.sleep(0)
            finally:
                self.house.homes[number].running -= 1
                model.leave()
        finally:
            self.using[number] -= 1

    async def _reload(self, number: int) -> None:
        """Unload as the registry does, after the calls in progress, and serve the model anew."""
        if number in self.closed:
            return
        self.closed.add(number)
        while self.using[number]:
            await asyncio.sleep(0)
        old, home = self.house.models[number], self.house.homes[number]
        await self.house.residency.remove(old)
        assert number not in self.house.memory
        self.house.models[number] = self.house.add(home)
        self.closed.discard(number)


@pytest.mark.parametrize("seed", range(3))
async def test_random_operations_keep_residency_invariants(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferstream.dataplane.residency.PATIENCE", 1e6)  # the clock of the walk runs fast
    walk = Walk(seed)
    await walk.run(STEPS)
    assert set(walk.ended) <= {"NoneType", "ModelLoadFailed", "cancelled"}, walk.ended
    assert walk.ended["NoneType"] > STEPS / 2
    assert sum(home.brought for home in walk.house.homes) > STEPS / 40
