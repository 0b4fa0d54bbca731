"""What a stop takes at most, by a clock that jumps to whatever is next."""

import asyncio
import selectors
from types import SimpleNamespace
from typing import Any

import pytest

from inferstream.plugins.otel.tracing import FLUSH
from inferstream.processes.spawning import REAPED
from inferstream.server import stopping
from inferstream.server.http1.port import LAST_WORDS
from inferstream.server.server import Server
from inferstream.settings import Settings

KUBERNETES = 30
"""Seconds that Kubernetes waits by default between SIGTERM and SIGKILL."""


OF_THE_BACKEND = ("registry", "placements", "tracing")


class Jumping(asyncio.SelectorEventLoop):
    """An event loop without waiting: where it would, its clock is put forward."""

    def __init__(self) -> None:
        self.now = 0.0
        jump = self._jump

        class Selector(selectors.SelectSelector):
            def select(self, timeout: float | None = None) -> Any:
                return super().select(0) or jump(timeout)

        super().__init__(Selector())

    def _jump(self, timeout: float | None) -> list[Any]:
        assert timeout is not None, "everything waits for something that never comes"
        self.now += timeout
        assert self.now < 5000, "it does not end"
        return []

    def time(self) -> float:
        return self.now


async def forever(*_: object) -> Any:
    """A part that does not end, whatever it is told."""
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            if asyncio.get_running_loop().time() > 900:
                raise


def stop(settings: Settings, **parts: object) -> float:
    """Seconds that a stop takes where all these parts hang."""
    server = Server(settings)
    for name, part in parts.items():
        setattr(server.backend if name in OF_THE_BACKEND else server, name, part)
    hanging: Any = SimpleNamespace(stop=forever, drain=lambda: None)

    async def main() -> float:
        server._loading = asyncio.create_task(forever())
        await server._stop(hanging)
        return loop.time()

    loop = Jumping()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.now = 1000
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


def hanging() -> dict[str, Any]:
    """Every part of a server that takes a part in its stop, none of which ends."""
    part = SimpleNamespace(stop=forever, drain=forever, unload_all=forever, pause=lambda: None, started=True)
    part.leave = lambda: None
    names = ("registry", "front_ends", "placements", "tracing", "_kafka")
    return {**dict.fromkeys(names, part), "_http": {"metrics": part}}


def test_default_limits_fit_in_the_kubernetes_grace_period() -> None:
    settings = Settings()
    assert settings.shutdown_delay + settings.shutdown_grace + stopping.AFTERWARDS + stopping.SPARE <= 25
    assert Server(settings).longest_stop <= 25 < KUBERNETES


def test_shutdown_is_bounded_if_every_step_hangs() -> None:
    settings = Settings()
    taken = stop(settings, **hanging())
    assert settings.shutdown_grace < taken <= stopping.longest_stop(settings) < Server(settings).longest_stop


@pytest.mark.parametrize("name", hanging())
def test_shutdown_is_bounded_if_one_step_hangs(name: str) -> None:
    settings = Settings(shutdown_delay=1, shutdown_grace=3)
    assert stop(settings, **{name: hanging()[name]}) <= stopping.longest_stop(settings)


def test_each_step_has_time_for_its_inner_steps() -> None:
    assert LAST_WORDS < stopping.PORTS
    assert 2 * stopping.LAST_RESPONSES < stopping.PORTS
    assert stopping.PORTS < stopping.FRONT_ENDS - stopping.SPARE - 2 * REAPED
    left = stopping.AFTERWARDS - stopping.SPARE - stopping.FRONT_ENDS
    assert left > FLUSH
    assert stopping.AFTERWARDS - stopping.PORTS > stopping.UNLOADING


async def _fails() -> None:
    raise RuntimeError("no way")


def test_failing_step_is_logged_and_the_next_runs(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(stopping.run_within(1, "closing", _fails()))
    [record] = caplog.records
    assert record.getMessage() == "stopping: closing failed"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "no way"
