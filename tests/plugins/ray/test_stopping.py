"""How a replica sees that Ray stops it, against a class of the shape of Ray's own."""

import asyncio
import sys
import threading
from types import ModuleType, SimpleNamespace

import pytest

from inferstream.errors import InvalidSettings
from inferstream.plugins.ray.stopping import on_stop


class ReplicaOfRay:
    """What Ray 2.60 has: the actor calls the public method once or more, and that runs the private one once."""

    def __init__(self) -> None:
        self._deployment_config = SimpleNamespace(graceful_shutdown_timeout_s=7.0)
        self.drained = asyncio.Event()

    async def _perform_graceful_shutdown(self) -> None:
        await self.drained.wait()

    async def perform_graceful_shutdown(self) -> None:
        await self._perform_graceful_shutdown()


def ray_with(monkeypatch, *actors: object) -> None:
    module = ModuleType("ray")
    module.__version__ = "9.1"
    worker = SimpleNamespace(global_worker=SimpleNamespace(actors=dict(enumerate(actors))))
    module._private = SimpleNamespace(worker=worker)
    monkeypatch.setitem(sys.modules, "ray", module)


async def test_shutdown_runs_on_own_loop_while_ray_waits_for_calls(monkeypatch) -> None:
    replica = ReplicaOfRay()
    ray_with(monkeypatch, object(), SimpleNamespace(_replica_impl=replica))
    acted = []

    async def act(seconds: float) -> None:
        acted.append((seconds, asyncio.get_running_loop(), threading.current_thread()))
        rays.call_soon_threadsafe(replica.drained.set)

    on_stop(act)
    rays = asyncio.get_running_loop()
    assert acted == []
    await asyncio.wait_for(replica.perform_graceful_shutdown(), 30)
    assert acted == [(7.0, rays, threading.current_thread())]


async def test_ray_can_use_another_loop(monkeypatch) -> None:
    """Serve runs the code of a deployment in a thread of its own."""
    loops = []

    async def act(seconds: float) -> None:
        loops.append(asyncio.get_running_loop())
        acted.set()

    async def of_ray() -> None:
        replica.drained = asyncio.Event()
        stopping = asyncio.create_task(replica.perform_graceful_shutdown())
        await asyncio.to_thread(acted.wait, 30)
        replica.drained.set()
        await stopping

    acted = threading.Event()
    replica = ReplicaOfRay()
    ray_with(monkeypatch, SimpleNamespace(_replica_impl=replica))
    on_stop(act)
    await asyncio.to_thread(asyncio.run, of_ray())
    assert loops == [asyncio.get_running_loop()]


async def test_pending_tasks_are_cancelled_with_replica(monkeypatch) -> None:
    replica = ReplicaOfRay()
    ray_with(monkeypatch, SimpleNamespace(_replica_impl=replica))
    cancelled = asyncio.Event()

    async def act(seconds: float) -> None:
        replica.drained.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    on_stop(act)
    await replica.perform_graceful_shutdown()
    await asyncio.wait_for(cancelled.wait(), 30)


class WithoutStop:
    _deployment_config = None


class Renamed(ReplicaOfRay):
    _perform_graceful_shutdown = None

    def perform_graceful_shutdown(self) -> None: ...


@pytest.mark.parametrize(
    ("actors", "missing"),
    [
        ([], "0 actors with _replica_impl"),
        ([object()], "0 actors with _replica_impl"),
        ([SimpleNamespace(_replica_impl=1), SimpleNamespace(_replica_impl=2)], "2 actors with _replica_impl"),
        ([SimpleNamespace(_replica_impl=WithoutStop())], "a replica without _perform_graceful_shutdown"),
        (
            [SimpleNamespace(_replica_impl=Renamed())],
            "a _perform_graceful_shutdown that is no coroutine function",
        ),
    ],
)
async def test_changed_ray_internals_fail_at_start(monkeypatch, actors, missing: str) -> None:
    ray_with(monkeypatch, *actors)
    with pytest.raises(InvalidSettings) as raised:
        on_stop(None)
    assert f"when Ray 9.1 stops a replica: this process has {missing}." in raised.value.message


async def test_missing_ray_module_fails_at_start(monkeypatch) -> None:
    module = ModuleType("ray")
    module.__version__ = "9.2"
    monkeypatch.setitem(sys.modules, "ray", module)
    with pytest.raises(InvalidSettings, match=r"Ray 9\.2 .* 0 actors"):
        on_stop(None)
