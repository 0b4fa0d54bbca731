"""One worker process, for the server that started it."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from ...concurrency.questions import Questions
from ...errors import ModelLoadFailed, WorkerLost
from ...processes import shared_memory
from ...processes.custom_metrics import RECEIVERS
from ...processes.link import Link
from ...processes.spawning import REAPED, Child, Program
from ...telemetry.meter_set import MeterSet
from ...telemetry.tracebacks import RaisedElsewhere
from . import frames
from .client import Suspected, WorkerClient

logger = logging.getLogger("inferstream.worker")

BLOCKED = 2.0
"""Seconds without a pong after which a worker's event loop counts as blocked."""


class InstanceMeters:
    """Adds the numbers of one worker process to `meters`, by instance and name."""

    def __init__(self, meters: Mapping[int, Mapping[str, MeterSet]]) -> None:
        self._meters = meters
        self._shares: dict[tuple[int, str], MeterSet] = {}

    def add(self, frame: frames.Numbers) -> None:
        meters = self._of(frame.instance, frame.meters)
        if meters is not None:
            meters.add(frame.changes)
            key = (frame.instance, frame.meters)
            share = self._shares.setdefault(key, type(meters)())
            share.add(frame.changes)
            if not any(share.gauges().values()):  # keep nothing for unloaded models
                del self._shares[key]

    def gone(self) -> None:
        """Remove the share of the gauges of a process that has ended."""
        for key, share in self._shares.items():
            meters = self._of(*key)
            if meters is not None:
                meters.take_back(share)
        self._shares.clear()

    def _of(self, instance: int, name: str) -> MeterSet | None:
        return self._meters.get(instance, {}).get(name)


class WorkerProcess(WorkerClient):
    """Starts a process with these `descriptors`, loads and unloads models in it, and ends it."""

    def __init__(
        self, program: Program, start: frames.Start, instance_meters: InstanceMeters, *descriptors: int
    ) -> None:
        with shared_memory.created() as requests, shared_memory.created() as responses, ExitStack() as undo:
            super().__init__(requests, responses)
            undo.callback(self._memory.close)
            self._child = Child(program, (requests, responses, *descriptors), self._gone)
            undo.pop_all()
        self._instance_meters = instance_meters
        self._frames |= {
            frames.Loaded: self._loaded,
            frames.LoadFailed: self._load_failed,
            frames.Unloaded: lambda frame: self._changes.settle(frame.instance, None),
            frames.Numbers: instance_meters.add,
            frames.Pong: self._ponged,
        }
        self._frames |= RECEIVERS
        self._changes: Questions[frames.Loaded | None] = Questions()
        self._pong = asyncio.Event()
        self._others = 0
        self._connect(self._child.pid, partial(Link, self._child.socket, lost=self._child.kill))
        self._link.send(start)

    async def load(self, frame: frames.LoadInstance) -> frames.Loaded:
        """Load a model. Raises ModelLoadFailed, and WorkerLost if the process ends meanwhile."""
        loaded = await self._change(frame.instance, frame)
        assert loaded is not None
        return loaded

    async def unload(self, instance: int) -> None:
        if self.models.pop(instance, None) is not None and not self.ended.is_set():
            try:
                await self._change(instance, frames.UnloadInstance(instance))
            except WorkerLost:
                return  # it ended with the process

    async def _change(
        self, instance: int, frame: frames.LoadInstance | frames.UnloadInstance
    ) -> frames.Loaded | None:
        if self.ended.is_set():
            raise WorkerLost(f"The worker process {self.how}.")
        change = self._changes.ask(instance)
        self._link.send(frame)
        return await change

    def _loaded(self, frame: frames.Loaded) -> None:
        if frame.instance not in self._changes:
            self._link.send(frames.UnloadInstance(frame.instance))  # its caller no longer waits
            return
        self.models[frame.instance] = True  # here, so that the end of the process cannot come in between
        self._changes.settle(frame.instance, frame)

    def _load_failed(self, frame: frames.LoadFailed) -> None:
        error = ModelLoadFailed(frame.message, frame.status_code)
        if frame.traceback is not None:
            error.__cause__ = RaisedElsewhere(frame.traceback)
        self._changes.fail(frame.instance, error)

    def _ponged(self, frame: frames.Pong) -> None:
        self._others = frame.others
        self._pong.set()

    async def blocked(self) -> bool:
        """Whether the worker's event loop is blocked, so that nothing in it can proceed."""
        self._pong.clear()
        self._link.send(frames.Ping())
        try:
            async with asyncio.timeout(BLOCKED):
                await self._pong.wait()
        except TimeoutError:
            return not self.ended.is_set()
        return False

    async def idle(self) -> None:
        """Wait until no call with a caller is running."""
        while self._others or any(not remote.cancelled for remote in self._calls.values()):
            await asyncio.sleep(0.05)
            self._link.send(frames.Ping())

    async def stop(self, grace: float) -> bool:
        """Unload everything and end, within `grace` and twice `REAPED` seconds; False if the process was killed."""
        self._link.send(frames.Stop(grace))
        late = partial(logger.error, "worker %d did not end within %.1f s; killing it", self.pid, grace)
        return await self._child.stopped(self.ended, grace + REAPED, late)

    def kill(self, why: str = "") -> None:
        self._child.kill(why)

    @property
    def halted(self) -> bool:
        """Whether a signal has stopped the process."""
        return self._child.halted

    @property
    def how(self) -> str:
        return self._child.how

    def _gone(self) -> None:
        self._lose()
        self._pong.set()
        self._instance_meters.gone()
        blame = Suspected if len(self._changes) > 1 else WorkerLost
        self._changes.fail_all(blame(f"its worker process {self._child.how}"))
