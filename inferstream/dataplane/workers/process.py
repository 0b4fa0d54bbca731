"""A worker process, as seen by the server that started it."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from ...errors import InferstreamError, ModelLoadFailed, WorkerLost, own_status
from ...processes import descriptors, shared_memory
from ...processes.custom_metrics import RECEIVERS
from ...processes.link import Link
from ...processes.spawning import REAPED, Child, Program
from ...telemetry.meter_set import MeterSet
from ...telemetry.model_meters import ModelMeters
from . import frames
from .client import Suspected, WorkerClient
from .memory import count_oom_kills

logger = logging.getLogger("inferstream.worker")

T = TypeVar("T")

BLOCKED = 2.0
"""Time without a reply to a ping, in seconds, after which a worker's event loop counts as blocked."""


class InstanceMeters:
    """Adds the metrics of one worker process to `meters`, by instance."""

    def __init__(self, meters: Mapping[int, ModelMeters]) -> None:
        self.meters = meters
        self._shares: dict[tuple[int, str], MeterSet] = {}

    def add(self, frame: frames.MeterChanges) -> None:
        meters = self._of(frame.instance, frame.meters)
        if meters is not None:
            meters.add(frame.changes)
            key = (frame.instance, frame.meters)
            share = self._shares.setdefault(key, type(meters)())
            share.add(frame.changes)
            if not any(share.gauges().values()):  # Drop entries of unloaded models.
                del self._shares[key]

    def subtract_gauges(self) -> None:
        """Subtract the gauges of a process that has exited."""
        for key, share in self._shares.items():
            meters = self._of(*key)
            if meters is not None:
                meters.take_back(share)
        self._shares.clear()

    def _of(self, instance: int, name: str) -> MeterSet | None:
        meters = self.meters.get(instance)
        return None if meters is None else meters.of(MeterSet.kinds[name])


class WorkerProcess(WorkerClient):
    """Manages a process and the models in it. If `shared`, other front ends can connect."""

    _intake: socket.socket | None = None

    def __init__(
        self, program: Program, start: frames.Start, instance_meters: InstanceMeters, *, shared: bool = False
    ) -> None:
        with (
            shared_memory.create_memory() as requests,
            shared_memory.create_memory() as responses,
            ExitStack() as undo,
            ExitStack() as theirs,
        ):
            inherited = [requests, responses]
            if shared:
                self._intake, end = descriptors.create_intake()
                undo.enter_context(self._intake)
                inherited.append(theirs.enter_context(end).fileno())
            super().__init__(requests, responses)
            undo.callback(self._memory.close)
            self._child = Child(program, inherited, self._handle_exit)
            undo.pop_all()
        self._instance_meters = instance_meters
        self._changing = 0
        self._blame: type[WorkerLost] = WorkerLost
        self._kills = count_oom_kills()
        self.starved = False
        """Whether the kernel killed it for lack of memory (OOM)."""
        self._others = 0
        link = partial(Link, self._child.socket)
        self._connect(
            self._child.pid, link, {frames.MeterChanges: instance_meters.add, **RECEIVERS}, self._child.kill
        )
        self._endpoint.send(start)

    def introduce(self, caller: socket.socket, message: bytes) -> None:
        """Connect a front end to this worker. Raises OSError."""
        assert self._intake is not None
        descriptors.pass_connection(self._intake, caller, message)

    async def load(self, frame: frames.LoadInstance) -> frames.Loaded:
        """Load a model. Raises ModelLoadFailed, or WorkerLost if the process exits during the load."""
        loading = self._endpoint.ask(frame)
        try:
            loaded = await self._await_change(asyncio.shield(loading))
        except WorkerLost:
            raise
        except InferstreamError as error:
            raise ModelLoadFailed(error.message, own_status(error)) from error.__cause__
        except BaseException:  # Cancelled, but the worker is still loading.
            loading.add_done_callback(lambda _: self._endpoint.ask(frames.UnloadInstance(frame.instance)))
            raise
        self.models.setdefault(frame.instance, True)  # It may have become unready in the meantime.
        if self.resized is not None:
            self.resized(frame.instance, loaded.slots)
        return loaded

    async def unload(self, instance: int) -> None:
        if self.models.pop(instance, None) is not None and not self.ended.is_set():
            try:
                await self._await_change(self._endpoint.ask(frames.UnloadInstance(instance)))
            except WorkerLost:
                return  # The process has exited.
            self.models.pop(instance, None)  # A readiness report may have arrived after the first removal.

    async def _await_change(self, answer: Awaitable[T]) -> T:
        """Await the result of a load or unload. Raises WorkerLost, or Suspected if several were running."""
        self._changing += 1
        try:
            result = await answer
            if not self.ended.is_set():  # The process may die after its reply.
                return result
        except WorkerLost:
            pass
        finally:
            self._changing -= 1
        raise self._blame(f"its worker process {self.how}")

    async def makes_no_progress(self) -> bool:
        """Whether the worker's event loop is blocked, so that it makes no progress."""
        try:
            async with asyncio.timeout(BLOCKED):
                self._others = await self._endpoint.ask(frames.Ping())
        except TimeoutError:
            return True
        except WorkerLost:
            return False
        return False

    async def wait_until_idle(self) -> None:
        """Wait until no call with a caller is running."""
        while self._others or any(not remote.cancelled for remote in self._calls.values()):
            await asyncio.sleep(0.05)
            self._others = await self._endpoint.ask(frames.Ping())

    async def stop(self, grace: float) -> bool:
        """Stop within `grace` seconds plus twice `REAPED`. Returns False if the process had to be killed."""
        self._endpoint.send(frames.Stop(grace))
        late = partial(logger.error, "worker %d did not end within %.1f s; killing it", self.pid, grace)
        return await self._child.wait_for_end(self.ended, grace + REAPED, late)

    def kill(self, why: str = "") -> None:
        self._child.kill(why)

    @property
    def halted(self) -> bool:
        """Whether a signal has stopped the process."""
        return self._child.halted

    @property
    def how(self) -> str:
        """How the process exited, for messages."""
        return "was killed for lack of memory" if self.starved else self._child.how

    def adopt(self, meters: Mapping[int, ModelMeters]) -> None:
        """Add the metrics of a spare process to these meters. Must be called before its first load."""
        self._instance_meters.meters = meters

    def _handle_exit(self) -> None:
        self._blame = Suspected if self._changing > 1 else WorkerLost
        self.starved = self._child.killed_by_kernel and count_oom_kills() > self._kills
        self._lose(self.how, self.starved)
        self._instance_meters.subtract_gauges()
        if self._intake is not None:
            self._intake.close()
