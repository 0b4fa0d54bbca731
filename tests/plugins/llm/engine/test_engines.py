"""Which engines serve, when their calls are given up, and when the engine of the server is restarted."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("grpc")

from inferstream.plugins.llm.engine import engines
from inferstream.plugins.llm.engine.engines import Engines
from inferstream.plugins.llm.engine.protocols.base import EngineLost, EngineSick


class Stub:
    """A target whose next check fails with `error`."""

    def __init__(self) -> None:
        self.address = self.label = "stub"
        self.healthy, self.failures, self.kv_usage = False, 0, None
        self.error: Exception | None = None
        self.calls: set[int] = set()
        self.ended = 0

    is_given_up = property(lambda self: self.failures >= engines.PATIENCE)

    async def check(self) -> None:
        if self.error is not None:
            raise self.error

    def end_calls(self) -> None:
        self.ended += 1


class Process:
    """A process that has exited with `code`."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.did: list[str] = []

    def claim(self) -> bool:
        return True

    def poll(self) -> int | None:
        return self.code

    def start(self) -> None:
        self.did.append("start")

    async def stop(self) -> None:
        self.did.append("stop")


def made(*targets: Any, process: Any = None) -> tuple[Engines, list[bool]]:
    reports: list[bool] = []
    return Engines("llm", [*targets], process, reports.append), reports


async def test_failed_checks_end_no_calls_until_patience_is_over() -> None:
    stub = Stub()
    pool, reports = made(stub)
    await pool._check(stub)  # type: ignore[arg-type]
    assert (stub.healthy, reports) == (True, [True])
    stub.error = EngineLost("gone")
    for failures in (1, 2, 3):
        await pool._check(stub)  # type: ignore[arg-type]
        assert (stub.healthy, reports[-1], stub.ended) == (False, False, int(failures == 3))
    stub.error = None
    await pool._check(stub)  # type: ignore[arg-type]
    assert (stub.healthy, stub.failures, reports[-1]) == (True, 0, True)


async def test_sick_engine_is_given_up_at_once() -> None:
    stub, other = Stub(), Stub()
    pool, reports = made(stub, other)
    await pool._check(other)  # type: ignore[arg-type]
    stub.error = EngineSick("sick")
    await pool._check(stub)  # type: ignore[arg-type]
    assert (stub.ended, reports[-1]) == (1, True)
    assert await pool.pick(0) is other  # type: ignore[comparison-overlap]


async def test_engine_with_fewest_calls_is_picked() -> None:
    busy, idle = Stub(), Stub()
    busy.healthy = idle.healthy = True
    busy.calls = {1, 2}
    pool, _ = made(busy, idle)
    assert await pool.pick(0) is idle  # type: ignore[comparison-overlap]


async def test_pick_waits_for_an_engine() -> None:
    stub = Stub()
    pool, _ = made(stub)
    with pytest.raises(EngineLost, match="no engine is available"):
        await pool.pick(0)
    picking = asyncio.ensure_future(pool.pick(20))
    await asyncio.sleep(0)
    await pool._check(stub)  # type: ignore[arg-type]
    assert await picking is stub  # type: ignore[comparison-overlap]


async def test_restarts_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(engines.asyncio, "sleep", sleep)
    stub, process = Stub(), Process()
    pool, _ = made(stub, process=process)
    await pool._tend(process, stub)  # type: ignore[arg-type]
    assert process.did == ["start"]
    process.did, process.code = [], 1
    for _ in range(8):
        await pool._tend(process, stub)  # type: ignore[arg-type]
    assert waits == [0, 1, 2, 4, 8, 16, 30, 30]
    assert process.did == ["stop", "start"] * 8


async def test_engine_that_starts_is_not_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    stub, process = Stub(), Process()
    pool, _ = made(stub, process=process)
    stub.error = EngineLost("it starts")
    for _ in range(9):
        await pool._check(stub)  # type: ignore[arg-type]
        await pool._tend(process, stub)  # type: ignore[arg-type]
    assert process.did == ["start"]
    process.did, stub.error = [], None
    await pool._check(stub)  # type: ignore[arg-type]
    stub.error = EngineLost("it hangs")
    for restarted in (False, False, True):
        await pool._check(stub)  # type: ignore[arg-type]
        await pool._tend(process, stub)  # type: ignore[arg-type]
        assert (process.did == ["stop", "start"]) is restarted
