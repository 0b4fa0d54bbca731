"""Spare workers: processes that have started and wait for a model."""

import asyncio
import logging

from ...extensions import WORKERS, loaded
from ...imports.folders import shared_folders
from ...processes.spawning import Program
from ...settings import Settings
from ..turns import find_turns
from .frames import Start
from .process import InstanceMeters, WorkerProcess
from .slot import LONGEST

logger = logging.getLogger("inferstream.worker")

REFILL = 1.0
"""Seconds from the use of a spare worker to the start of the next, so that it does not slow down the load."""


def first_frame(settings: Settings, workers: int) -> Start:
    """The first frame to one of this number of workers."""
    edges = ((plugin.value, edge.of(settings)) for plugin, edge in loaded(WORKERS, settings.strict))
    return Start(
        settings.debug,
        settings.use_structured_logging,
        settings.logging_settings,
        {value: given for value, given in edges if given is not None},
        shared_folders(),
        workers,
        settings.keep_freed_memory,
        settings.shows_errors,
        find_turns(settings),
    )


class Spares:
    """Keeps `settings.spare_workers` processes of one program."""

    def __init__(self, settings: Settings, program: Program) -> None:
        self._settings = settings
        self._program = program
        self._waiting: dict[WorkerProcess, asyncio.Task[None]] = {}
        """Each with the task that replaces it when it ends."""
        self._refill: asyncio.TimerHandle | None = None
        self._delay = REFILL

    @property
    def processes(self) -> list[int]:
        """Their process ids."""
        return [process.pid for process in self._waiting]

    def fill(self) -> None:
        """Start those that are missing. Tries again later if that fails."""
        self._refill = None
        while len(self._waiting) < self._settings.spare_workers:
            try:
                start = first_frame(self._settings, 1)
                process = WorkerProcess(self._program, start, InstanceMeters({}))
            except OSError as error:
                logger.error("a spare worker cannot be started: %s", error.strerror)
                self._retry()
                return
            self._waiting[process] = asyncio.create_task(self._replace(process))

    async def _replace(self, process: WorkerProcess) -> None:
        await process.ended.wait()
        logger.error("spare worker %d %s; starting another", process.pid, process.how)
        del self._waiting[process]
        self._retry()

    def take(self, program: Program) -> WorkerProcess | None:
        """A process that runs this program; None where there is none."""
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
        self._delay = min(2 * self._delay, LONGEST)

    def _fill_later(self) -> None:
        if self._refill is not None:
            self._refill.cancel()
        self._refill = asyncio.get_running_loop().call_later(self._delay, self.fill)

    async def stop(self, grace: float) -> bool:
        """End them within `grace` seconds; False if one was killed."""
        if self._refill is not None:
            self._refill.cancel()
        waiting, self._waiting = self._waiting, {}
        for replacing in waiting.values():
            replacing.cancel()
        return all(await asyncio.gather(*(process.stop(grace) for process in waiting)))
