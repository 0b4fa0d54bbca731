"""Detects when Ray stops a replica. Ray Serve has no public hook, so this relies on an internal class."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from inferstream.errors import InvalidSettings

STOPPING = 5.0
"""Seconds within which a server stops after `shutdown_delay` and `shutdown_grace`."""

OURS = "_replica_impl"
STOP = "_perform_graceful_shutdown"
CONFIG = "_deployment_config"
NEEDED = (STOP, CONFIG)


def on_stop(act: Callable[[float], Awaitable[None]]) -> None:
    """Run `act` on the current event loop when Ray starts to stop this replica.

    `act` receives the seconds until Ray kills the process, and is cancelled if the replica stops earlier.
    Raises InvalidSettings if the Ray version has different internals.
    """
    replica, loop = _replica(), asyncio.get_running_loop()
    stop = getattr(replica, STOP)

    async def stopping() -> None:
        seconds = getattr(replica, CONFIG).graceful_shutdown_timeout_s
        acting = asyncio.run_coroutine_threadsafe(_run(act, seconds), loop)
        try:
            await stop()
        finally:
            acting.cancel()

    setattr(replica, STOP, stopping)


async def _run(act: Callable[[float], Awaitable[None]], seconds: float) -> None:
    await act(seconds)


def _replica() -> Any:
    """Return the Ray Serve object of this process whose method stops the replica."""
    import ray

    worker = getattr(getattr(ray, "_private", None), "worker", None)
    actors = getattr(getattr(worker, "global_worker", None), "actors", {})
    replicas = [getattr(actor, OURS) for actor in actors.values() if hasattr(actor, OURS)]
    if len(replicas) != 1:
        missing = f"{len(replicas)} actors with {OURS}"
    elif absent := [name for name in NEEDED if not hasattr(replicas[0], name)]:
        missing = f"a replica without {' and '.join(absent)}"
    elif not inspect.iscoroutinefunction(getattr(replicas[0], STOP)):
        missing = f"a {STOP} that is no coroutine function"
    else:
        return replicas[0]
    raise InvalidSettings(
        f"inferstream.ray cannot see when Ray {ray.__version__} stops a replica: this process has {missing}. "
        "Streams would be cut; install a Ray that the extra `ray` allows"
    )
