"""The first calls of models that load on demand."""

import asyncio

import pytest

from inferstream.dataplane.first_calls import FirstCalls, format_key
from inferstream.errors import ModelNotReady, Overloaded

KEY = ("m", "1")


class Loads:
    """Loads that end when the test says so."""

    def __init__(self, error: Exception | None = None) -> None:
        self.began = 0
        self.may = asyncio.Event()
        self.error = error

    async def __call__(self, key: tuple[str, str | None]) -> None:
        self.began += 1
        await self.may.wait()
        if self.error is not None:
            raise self.error


def first_calls(loads: Loads, bound: int = 10) -> FirstCalls:
    calls = FirstCalls(loads)
    calls.bounds[KEY] = bound
    return calls


async def test_concurrent_calls_share_one_load() -> None:
    loads = Loads()
    calls = first_calls(loads)
    waiting = [asyncio.create_task(calls.wait(KEY)) for _ in range(5)]
    while not loads.began:
        await asyncio.sleep(0)
    assert KEY in calls
    loads.may.set()
    await asyncio.gather(*waiting)
    assert loads.began == 1
    assert KEY not in calls


async def test_disconnect_does_not_end_the_load() -> None:
    loads = Loads()
    calls = first_calls(loads)
    leaving, staying = (asyncio.create_task(calls.wait(KEY)) for _ in range(2))
    while not loads.began:
        await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    loads.may.set()
    await staying


async def test_failed_load_fails_all_waiters_and_next_call_retries() -> None:
    loads = Loads(ModelNotReady("m", "1", failed=True))
    calls = first_calls(loads)
    loads.may.set()
    failed = await asyncio.gather(*(calls.wait(KEY) for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in failed] == [ModelNotReady] * 3
    with pytest.raises(ModelNotReady):
        await calls.wait(KEY)
    assert loads.began == 2


async def test_calls_beyond_the_limit_are_refused() -> None:
    loads = Loads()
    calls = first_calls(loads, bound=1)
    waiting = [asyncio.create_task(calls.wait(KEY)) for _ in range(2)]
    while not loads.began:
        await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="Model m is overloaded: 1 calls are waiting already"):
        await calls.wait(KEY)
    loads.may.set()
    await asyncio.gather(*waiting)


async def test_shutdown_ends_loads() -> None:
    loads = Loads()
    calls = first_calls(loads)
    waiting = asyncio.create_task(calls.wait(KEY))
    while not loads.began:
        await asyncio.sleep(0)
    calls.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_version_is_part_of_the_label() -> None:
    assert (format_key(KEY), format_key(("m", None))) == ("m:1", "m")
