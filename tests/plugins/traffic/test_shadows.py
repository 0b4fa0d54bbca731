"""Copies of calls for shadows: their places, their time, and their end with the server."""

import asyncio
from typing import Any

import pytest

from inferstream import Settings
from inferstream.errors import Draining
from inferstream.ext.calls import Call, Operation
from inferstream.plugins.traffic.shadows import Shadows
from inferstream.types import InferenceRequest


def copy() -> Call:
    return Call(Operation.INFER, "m", None, InferenceRequest(inputs=[]), {})


def shadows(**settings: Any) -> Shadows:
    return Shadows(lambda name, version: None, Settings(**settings))  # type: ignore[arg-type, return-value]


async def test_copy_holds_slot_until_it_ends() -> None:
    held = shadows(shadow_max_in_flight=2)
    assert [held.reserve() for _ in range(3)] == [True, True, False]
    held.release()
    assert held.reserve()
    ended = asyncio.Event()

    async def run() -> None:
        await ended.wait()
        raise RuntimeError("a shadow's failure is nobody's")

    held.start(copy(), run())
    await asyncio.sleep(0)
    assert not held.reserve()
    ended.set()
    async with asyncio.timeout(10):
        while not held.reserve():
            await asyncio.sleep(0)
    assert not held._calls


@pytest.mark.parametrize(("timeout", "limited"), [(5, True), (0, False), (None, False)])
async def test_copy_has_time_limit_of_call(timeout: float | None, limited: bool) -> None:
    held, call = shadows(request_timeout=timeout), copy()
    now = asyncio.get_running_loop().time()

    async def run() -> None: ...

    held.reserve()
    held.start(call, run())
    assert (call.deadline is not None) is limited
    if call.deadline is not None:
        assert now + 5 <= call.deadline <= asyncio.get_running_loop().time() + 5


async def test_server_shutdown_ends_every_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[Exception] = []
    monkeypatch.setattr(Call, "end", lambda self, reason: reasons.append(reason))
    held = shadows()

    async def run() -> None:
        await asyncio.Event().wait()

    for _ in range(2):
        held.reserve()
        held.start(copy(), run())
    await asyncio.sleep(0)
    held.end()
    assert [type(reason) for reason in reasons] == [Draining, Draining]
    held._tasks.cancel()
    await held._tasks.wait_for_all()
