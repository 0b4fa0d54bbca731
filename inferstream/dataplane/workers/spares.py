"""Spare workers: processes that are already started and wait for a model."""

import asyncio
import logging

from ...extensions.entries import WORKERS
from ...extensions.loading import load_group
from ...imports.folders import shared_folders
from ...imports.trusted import TrustedRuntimes
from ...processes.spawning import Program
from ...settings import Settings
from ..turns import find_turns
from .frames import Start
from .process import InstanceMeters, WorkerProcess
from .worker_keeper import MAX_DELAY_SECONDS

logger = logging.getLogger("inferstream.worker")

REFILL = 1.0
"""Delay before a used spare worker is replaced, in seconds. It avoids slowing down the load."""


def first_frame(settings: Settings, workers: int) -> Start:
    """Create the first frame for a worker in a group of `workers` workers."""
    edges = ((plugin.value, edge.of(settings)) for plugin, edge in load_group(WORKERS, settings.strict))
    return Start(
        settings.lowest_log_level,
        settings.use_structured_logging,
        settings.logging_settings,
        {value: given for value, given in edges if given is not None},
        shared_folders(),
        workers,
        settings.keep_freed_memory,
        settings.shows_errors,
        find_turns(settings),
        TrustedRuntimes.names_in_force(),
    )


class Spares:
    """Keeps `settings.spare_workers` processes of one program ready."""

    def __init__(self, settings: Settings, program: Program) -> None:
        self._settings = settings
        self._program = program
        self._waiting: dict[WorkerProcess, asyncio.Task[None]] = {}
        """Spare processes, and the tasks that replace them if they exit."""
        self._refill: asyncio.TimerHandle | None = None
        self._delay = REFILL

    @property
    def processes(self) -> list[int]:
        """The process ids of the spare workers."""
        return [process.pid for process in self._waiting]

    def fill(self) -> None:
        """Start missing processes. If that fails, it is retried later."""
        self._refill = None
        while len(self._waiting) < self._settings.spare_workers:
            try:
                start = first_frame(self._settings, 1)
                process = WorkerProcess(self._program, start, InstanceMeters({}))
            except OSError as error:
                logger.error("spare worker: start failed: %s", error.strerror)
                self._retry()
                return
            self._waiting[process] = asyncio.create_task(self._replace(process))

    async def _replace(self, process: WorkerProcess) -> None:
        await process.ended.wait()
        logger.error("spare worker %d %s; starting another", process.pid, process.how)
        del self._waiting[process]
        self._retry()

    def take(self, program: Program) -> WorkerProcess | None:
        """Take a process for this program, if one is available."""
        if program != self._program:
            return None
        process = next((each for each in self._waiting if not each.ended.is_set()), None)
        if process is not None:
            self._waiting.pop(process).cancel()
            self._delay = REFILL
        if process is not None or self._refill is None:
            self._fill_later()
        return process

    def _retry(self) -> None:
        self._fill_later()
        self._delay = min(2 * self._delay, MAX_DELAY_SECONDS)

    def _fill_later(self) -> None:
        if self._refill is not None:
            self._refill.cancel()
        self._refill = asyncio.get_running_loop().call_later(self._delay, self.fill)

    async def stop(self, grace: float) -> bool:
        """Stop all processes within `grace` seconds. Returns False if one had to be killed."""
        if self._refill is not None:
            self._refill.cancel()
        waiting, self._waiting = self._waiting, {}
        for replacing in waiting.values():
            replacing.cancel()
        return all(await asyncio.gather(*(process.stop(grace) for process in waiting)))
