"""The slot of a worker: it keeps a process running, with all models of its group."""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from ...concurrency.tasks import Tasks
from ...errors import ModelLoadFailed, WorkerLost
from ...telemetry.workers import WorkerMeters
from .client import Suspected, WorkerClient
from .frames import LoadInstance
from .process import WorkerProcess

logger = logging.getLogger("inferstream.worker")

PROVEN = 2.0
"""Uptime in seconds after which a worker counts as started. A completed call also suffices."""

MAX_DELAY_SECONDS = 30.0
"""Maximum delay between two attempts, in seconds."""

SILENT = 10
"""Number of consecutive heartbeats for which a process may be stopped by a signal before it is replaced."""

CRASHES = 3
"""Number of consecutive crashes while loading a model, after which the worker skips it."""


class WorkerKeeper:
    """Keeps a process running with the group's models.

    `retired` is called with a process that is being replaced.
    """

    def __init__(
        self,
        spawn: Callable[[], WorkerProcess],
        models: dict[int, LoadInstance],
        meters: WorkerMeters,
        grace: float,
        heartbeat: float,
        retired: Callable[[WorkerProcess], None] | None = None,
    ) -> None:
        self._spawn = spawn
        self._models = models
        self._meters = meters
        self._grace = grace
        self._heartbeat = heartbeat
        self._withdraw = retired
        self._retired = asyncio.Event()
        self._retiring = Tasks()
        self._crashes: dict[int, int] = {}
        self._catching_up: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._refusal = ""
        self.process: WorkerProcess | None = self._start()
        self._keeping = asyncio.create_task(self._keep())

    def _start(self) -> WorkerProcess | None:
        try:
            process = self._spawn()
        except OSError as error:
            self._refusal = f"A worker cannot be started: {error.strerror}"
            logger.error("%s", self._refusal)
            return None
        self._meters.count_start(process.pid)
        return process

    async def _keep(self) -> None:
        failures = 0
        while True:
            since = monotonic()
            process = self.process
            self._tried.set()
            if process is not None:
                self.catch_up()
                await self._wait_for_end(process)
                self._tried.clear()
                self._stop_catching_up()
                self.process = None
                proven = process.completed or monotonic() - since > PROVEN
                failures = 0 if proven else failures + 1
            else:
                failures += 1
            if failures > 1:
                await asyncio.sleep(min(2.0 ** (failures - 2), MAX_DELAY_SECONDS))
            self.process = self._start()

    async def _wait_for_end(self, process: WorkerProcess) -> None:
        self._retired.clear()
        waits: list[asyncio.Task[object]] = [
            asyncio.create_task(process.ended.wait()),
            asyncio.create_task(self._retired.wait()),
        ]
        if self._heartbeat:
            waits.append(asyncio.create_task(self._watch(process)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if process.ended.is_set():
            self._meters.count_crash(process.pid)
            logger.error("worker %d %s; starting another", process.pid, process.how)
        else:
            self._retiring.start(self._retire(process))

    async def _watch(self, process: WorkerProcess) -> None:
        """Kill the process when it has missed `SILENT` heartbeats."""
        missed = 0
        while missed < SILENT:
            await asyncio.sleep(self._heartbeat)
            missed = missed + 1 if process.halted else 0
        process.kill(f"was stopped for {SILENT * self._heartbeat:g} s and then killed")
        await process.ended.wait()

    def catch_up(self) -> None:
        """Load missing models, and retry failed loads."""
        process = self.process
        if process is None or (self._catching_up is not None and not self._catching_up.done()):
            return
        if self._missing(process):
            self._catching_up = asyncio.create_task(self._catch_up(process))

    def _missing(self, process: WorkerProcess) -> list[LoadInstance]:
        """Return the models to load. Models that crashed a worker are last."""
        missing = [
            load
            for instance, load in self._models.items()
            if instance not in process.models and self._crashes.get(instance, 0) < CRASHES
        ]
        return sorted(missing, key=lambda load: self._crashes.get(load.instance, 0))

    async def _catch_up(self, process: WorkerProcess) -> None:
        delay = 1.0
        while missing := self._missing(process):
            for load in missing:
                try:
                    await process.load(load)
                    self._crashes.pop(load.instance, None)
                    if load.instance not in self._models:
                        await process.unload(load.instance)  # It was unloaded everywhere else.
                except ModelLoadFailed as error:
                    logger.error("worker %d: %s", process.pid, error.message)
                except Suspected:
                    return
                except WorkerLost:
                    self._crashes[load.instance] = self._crashes.get(load.instance, 0) + 1
                    return
            if self._missing(process):
                await asyncio.sleep(delay)
                delay = min(delay * 2, MAX_DELAY_SECONDS)

    def _stop_catching_up(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()
            self._catching_up = None

    def replace(self, process: WorkerClient, why: str) -> None:
        """Replace this process, but let it finish its calls."""
        if self.process is process and not self.process.ended.is_set():
            logger.error("worker %d %s; replacing it", process.pid, why)
            process.models.clear()  # It receives no more calls from now on.
            self._retired.set()
            if self._withdraw is not None:
                self._withdraw(self.process)

    async def _retire(self, process: WorkerProcess) -> None:
        try:
            async with asyncio.timeout(self._grace):
                if not await process.makes_no_progress():
                    await process.wait_until_idle()
        except TimeoutError:
            logger.error(
                "worker %d is still running requests after %g s; killing it", process.pid, self._grace
            )
        finally:
            process.kill()
            self._meters.count_crash(process.pid)

    async def running(self) -> WorkerProcess:
        """Return the process, once it exists. Raises WorkerLost if it cannot be started."""
        await self._tried.wait()
        if self.process is None:
            raise WorkerLost(self._refusal or "its worker is being stopped")
        return self.process

    async def stop(self, grace: float) -> bool:
        """Stop the process within `grace` seconds. Returns False if it had to be killed."""
        self._keeping.cancel()
        self._stop_catching_up()
        process, self.process = self.process, None
        self._retiring.cancel()
        if process is not None:
            self._meters.remove_worker(process.pid)
            if not process.ended.is_set():
                return await process.stop(grace)
        return True
