"""Channels: every item once and in order, whoever is cancelled, and nobody waits for what has happened."""

import asyncio
import gc
import random
import threading
import weakref
from collections import Counter
from contextlib import suppress

import pytest

from inferstream.concurrency.channel import Channel, SizedChannel, ThreadChannel

SEEDS = range(150)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def send(channel: Channel[int], number: int) -> None:
    await channel.room()
    channel.put(number)


async def read(channel: Channel[int]) -> list[int]:
    return [item async for item in channel]


class Waiting(ThreadChannel[int]):
    """Lets its thread wait for room."""

    def __init__(self, bound: int) -> None:
        super().__init__(bound)
        self._space = threading.Semaphore(0)
        self.most = 0

    def _go_on(self) -> None:
        self._watched = False
        self._space.release()

    def produce(self, count: int, error: Exception | None = None) -> None:
        for number in range(count):
            while not self.has_room():
                self._space.acquire()
            if not self.open:
                break
            self.put(number)
            self.most = max(self.most, len(self._items))
        self.end(error)


async def test_items_are_delivered_in_order_before_the_end() -> None:
    channel: Channel[int] = Channel(8)
    for number in range(3):
        channel.put(number)
    channel.end()
    assert await read(channel) == [0, 1, 2]
    with pytest.raises(StopAsyncIteration):
        await anext(channel)


async def test_waiting_reader_resumes_on_item_or_end() -> None:
    channel: Channel[int] = Channel(8)
    reading = asyncio.ensure_future(read(channel))
    await turns()
    channel.put(1)
    await turns()
    channel.end()
    assert await asyncio.wait_for(reading, 5) == [1]


async def test_error_follows_items_and_is_raised_once() -> None:
    channel: Channel[int] = Channel(8)
    channel.put(1)
    channel.end(ValueError("broken"))
    assert await anext(channel) == 1
    with pytest.raises(ValueError, match="broken"):
        await anext(channel)
    with pytest.raises(StopAsyncIteration):
        await anext(channel)


async def test_first_end_wins_and_later_items_are_dropped() -> None:
    channel: Channel[int] = Channel(8)
    channel.end()
    channel.put(1)
    channel.end(ValueError("late"))
    assert await read(channel) == []


async def test_closing_drops_pending_items_and_ends_a_reader() -> None:
    channel: Channel[int] = Channel(8)
    reading = asyncio.ensure_future(read(channel))
    await turns()
    channel.close()
    assert await asyncio.wait_for(reading, 5) == []
    channel.put(1)
    channel.close()
    assert await read(channel) == []


async def test_reader_may_leave_before_the_end() -> None:
    channel: Channel[int] = Channel(8)
    channel.close()
    assert not channel.open
    assert not channel.ended
    channel.end(ValueError("after the reader"))
    assert channel.ended


@pytest.mark.parametrize("leave", [True, False])
async def test_producer_waits_for_space_and_resumes_on_item_or_reader_exit(leave: bool) -> None:
    channel: Channel[int] = Channel(2)
    await send(channel, 0)
    await send(channel, 1)
    producing = asyncio.ensure_future(send(channel, 2))
    await turns()
    assert not producing.done()
    if leave:
        channel.close()
    else:
        assert await anext(channel) == 0
    await asyncio.wait_for(producing, 5)
    assert channel.has_room() is leave


async def test_all_producers_resume_when_the_reader_leaves() -> None:
    channel: Channel[int] = Channel(1)
    producing = [asyncio.ensure_future(send(channel, number)) for number in range(5)]
    await turns()
    channel.close()
    await asyncio.wait_for(asyncio.gather(*producing), 5)


async def test_producers_resume_in_arrival_order() -> None:
    channel: Channel[int] = Channel(1)
    producing = [asyncio.ensure_future(send(channel, number)) for number in range(5)]
    got = [await anext(channel) for _ in range(5)]
    assert got == list(range(5))
    await asyncio.gather(*producing)


@pytest.mark.parametrize("asks", [False, True])
async def test_later_producer_waits_behind_the_others(asks: bool) -> None:
    channel: Channel[int] = Channel(1)
    channel.put(0)
    producing = [asyncio.ensure_future(send(channel, number)) for number in (1, 2)]
    await turns()
    channel.pop()
    if asks:
        producing.append(asyncio.ensure_future(send(channel, 3)))
        await asyncio.sleep(0)
    else:
        channel.put(3)  # without waiting: who was to go on stays the first
    got = [await anext(channel) for _ in range(3)]
    assert got == ([1, 2, 3] if asks else [3, 1, 2])


async def test_producer_cancelled_on_wakeup_passes_it_on() -> None:
    channel: Channel[int] = Channel(1)
    channel.put(0)
    first, second = (asyncio.ensure_future(send(channel, number)) for number in (1, 2))
    await turns()
    assert channel.pop() == 0
    first.cancel()
    await asyncio.wait_for(second, 5)
    assert channel.pop() == 2
    assert first.cancelled()


async def test_reader_cancelled_on_arrival_leaves_the_item() -> None:
    channel: Channel[int] = Channel(1)
    reading = asyncio.ensure_future(anext(channel))
    await turns()
    channel.put(7)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await anext(channel) == 7


async def test_item_is_freed_after_delivery() -> None:
    class Item: ...

    channel: Channel[Item] = Channel(1)
    item = Item()
    kept = weakref.ref(item)
    channel.put(item)
    del item
    item = await anext(channel)
    del item
    gc.collect()
    assert kept() is None


async def test_raised_error_is_in_no_reference_cycle() -> None:
    class Broken(Exception): ...

    channel: Channel[int] = Channel(1)
    error = Broken()
    kept = weakref.ref(error)
    channel.end(error)
    gc.disable()
    try:
        del error
        with suppress(Broken):
            await anext(channel)
        assert kept() is None
    finally:
        gc.enable()


async def test_item_sizes_count_toward_capacity() -> None:
    channel: SizedChannel[int] = SizedChannel(3, 100)
    channel.put(0, 60)
    assert channel.has_room()
    channel.put(1, 60)
    assert not channel.has_room()
    producing = asyncio.ensure_future(channel.room())
    await turns()
    assert not producing.done()
    assert await anext(channel) == 0
    await asyncio.wait_for(producing, 5)
    assert (channel.size, channel.pop(), channel.size) == (60, 1, 0)


async def test_large_item_waits_until_it_fits_entirely() -> None:
    channel: SizedChannel[int] = SizedChannel(10, 100)
    channel.put(0, 1)
    channel.put(1, 500)
    producing = asyncio.ensure_future(channel.room())
    await turns()
    channel.pop()
    await turns()
    assert not producing.done()
    channel.pop()
    await asyncio.wait_for(producing, 5)


async def test_closed_channel_has_no_size() -> None:
    channel: SizedChannel[int] = SizedChannel(10, 100)
    channel.put(1, 500)
    channel.close()
    assert channel.size == 0
    assert channel.has_room()


async def test_overfull_channel_accepts_items_once_below_its_bound() -> None:
    channel: Channel[int] = Channel(1)
    for number in range(3):
        channel.put(number)
    producing = asyncio.ensure_future(channel.room())
    for _ in range(2):
        await turns()
        channel.pop()
    await turns()
    assert not producing.done()
    channel.pop()
    await asyncio.wait_for(producing, 5)


@pytest.mark.parametrize("bound", [1, 2, 8])
async def test_producer_thread_is_throttled_without_losing_items(bound: int) -> None:
    channel = Waiting(bound)
    thread = threading.Thread(target=channel.produce, args=(3000, ValueError("broken")))
    thread.start()
    got = []
    with pytest.raises(ValueError, match="broken"):
        async with asyncio.timeout(60):
            async for number in channel:
                got.append(number)
    thread.join()
    assert got == list(range(3000))
    assert channel.most <= bound


@pytest.mark.parametrize("seed", range(20))
async def test_producer_thread_resumes_when_its_reader_leaves(seed: int) -> None:
    channel = Waiting(2)
    thread = threading.Thread(target=channel.produce, args=(10**9,))
    thread.start()
    for number in range(random.Random(seed).randrange(200)):
        assert await anext(channel) == number
    channel.close()
    await asyncio.to_thread(thread.join, 30)
    assert not thread.is_alive()


async def test_item_taken_just_before_producer_waits_is_noticed() -> None:
    class Raced(Waiting):
        def _full(self) -> bool:
            full = super()._full()
            if full and not self._watched:
                self.pop()  # the reader does not see yet that the producer wants to know
            return full

    channel = Raced(1)
    channel.put(0)
    assert channel.has_room()


async def test_item_added_just_before_reader_waits_is_noticed() -> None:
    class Raced:
        def create_future(self) -> asyncio.Future[None]:
            channel.put(1)  # the thread does not see yet that the reader waits
            return asyncio.get_running_loop().create_future()

    channel = Waiting(1)
    channel._loop = Raced()
    assert channel.news().done()


def test_producer_thread_ends_if_the_reader_loop_is_closed() -> None:
    async def begin() -> Waiting:
        return Waiting(2)

    loop = asyncio.new_event_loop()
    channel = loop.run_until_complete(begin())
    channel._reader = loop.create_future()
    loop.close()
    channel.produce(100)
    assert not channel.open


class Schedule:
    """One seeded interleaving of producers and readers, each of whom may be cancelled at any await."""

    def __init__(self, seed: int, kind: type[Channel[int]]) -> None:
        self.random = random.Random(seed)
        self.bound = self.random.randint(1, 4)
        sized = kind is SizedChannel
        self.channel = SizedChannel(self.bound, 10**6) if sized else kind(self.bound)
        self.put: list[int] = []
        self.got: list[int] = []
        self.number = 0

    async def produce(self) -> None:
        while True:
            await self.channel.room()
            self.number += 1
            self.channel.put(self.number)
            self.put.append(self.number)
            assert len(self.channel._items) <= self.bound
            for _ in range(self.random.randrange(3)):
                await asyncio.sleep(0)

    async def read(self) -> None:
        async for item in self.channel:
            self.got.append(item)  # no await in between: what has left is there
            for _ in range(self.random.randrange(3)):
                await asyncio.sleep(0)

    async def run(self) -> None:
        producers = [asyncio.ensure_future(self.produce()) for _ in range(self.random.randint(1, 4))]
        reader = asyncio.ensure_future(self.read())
        for _ in range(150):
            action = self.random.random()
            if action < 0.15:
                index = self.random.randrange(len(producers))
                producers[index].cancel()
                producers[index] = asyncio.ensure_future(self.produce())
            elif action < 0.3:
                reader.cancel()
                await asyncio.wait([reader])  # one reader at a time
                reader = asyncio.ensure_future(self.read())
            await asyncio.sleep(0)
        before = len(self.got)
        await turns(50)
        assert len(self.got) > before  # nobody waits for a wake-up that was lost
        for producer in producers:
            producer.cancel()
        await asyncio.wait(producers)
        self.channel.end()
        await asyncio.wait_for(reader, 5)


@pytest.mark.parametrize("kind", [Channel, SizedChannel])
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_item_is_lost_or_duplicated_on_cancellation(seed: int, kind: type[Channel[int]]) -> None:
    schedule = Schedule(seed, kind)
    await schedule.run()
    assert schedule.got == schedule.put
    assert max(Counter(schedule.got).values()) == 1


async def test_waiting_thread_resumes_when_all_items_are_taken() -> None:
    channel = Waiting(4)
    for number in range(4):
        channel.put(number)
    assert not channel.has_room()  # as a thread that waits from now on
    for _ in range(3):
        await anext(channel)
        assert not channel._space.acquire(blocking=False)
    await anext(channel)
    assert channel._space.acquire(blocking=False)
