"""The leader: keeps the followers alive, in step, and their numbers with its own."""

import asyncio
import logging
import os
from collections.abc import Coroutine
from itertools import count
from time import monotonic
from typing import Any

from ...dataplane.execution.base import Execution
from ...dataplane.registry import LoadModel, Registry
from ...dataplane.workers import loads
from ...dataplane.workers.group import WorkerGroup
from ...dataplane.workers.process import WorkerProcess
from ...dataplane.workers.shared import SharedProcess
from ...errors import InferstreamError, WorkerLost
from ...imports.folders import shared_folders
from ...settings import ModelSettings, Settings
from ...telemetry.files import MetricFiles
from ...telemetry.frontends import FrontEndMeters
from ...telemetry.metrics import Meters
from ...telemetry.sums import Sums, families_of
from . import frames, shares
from .member import Member
from .models import SharedModel, SharedModels
from .queries import run_query

logger = logging.getLogger("inferstream.server")

LOOK_EVERY = 0.25
"""Seconds between looks at whether the followers must be told something new."""

SCRAPE = 1.0
"""Seconds a follower may take to tell its numbers; what it told last counts then, a second old at most."""

LONGEST = 30.0
"""Seconds at most between two attempts to start a follower."""

ATTEMPTS = 4
"""How often a follower may end before it serves, one life after another, until the server's start is given up."""


class FrontEnds:
    """The other front ends of this server, one process each."""

    def __init__(self, settings: Settings, meters: Meters, files: MetricFiles) -> None:
        self.count = settings.frontends
        self._settings = settings
        self._meters = meters
        self._files = files
        self._own = FrontEndMeters()
        meters.add(self._own)
        meters.elsewhere = self.exposition
        self._models = SharedModels(settings.model_load_timeout)
        self._workers: dict[int, tuple[WorkerGroup, SharedProcess]] = {}
        self._numbers = count(1)
        self._memory = loads.created(self.count)
        self._loads = loads.WorkerLoads(self._memory, 0, self.count)
        self._past = Sums()
        self._tasks: set[asyncio.Task[None]] = set()
        self._keepers: list[asyncio.Task[None]] = []
        self._complete = asyncio.Event()
        self._given_up: InferstreamError | None = None
        self._announced: object = None
        self._draining = False

    def start(self, registry: Registry, ports: dict[str, int]) -> None:
        """Start the followers; they take these ports as soon as they serve what `registry` does."""
        self._registry = registry
        self._ports = ports
        self._keepers = [asyncio.create_task(self._keep(index)) for index in range(1, self.count)]
        self._keepers.append(asyncio.create_task(self._watch()))

    @property
    def ready(self) -> bool:
        """Whether each has come up; that one is being replaced later takes the others out of no service."""
        return self._complete.is_set() and self._given_up is None

    async def up(self) -> None:
        """Wait until each serves, and knows that all do. Raises InferstreamError for one that never will."""
        await self._complete.wait()
        if self._given_up is not None:
            raise self._given_up
        await self.agree()

    def sharing(self, load: LoadModel) -> LoadModel:
        """`load`, for models of which this front end gets its share of the limits."""

        async def load_share(settings: ModelSettings) -> Execution:
            shares.divide(settings, 0, self.count)
            return await load(settings)

        return load_share

    async def add(self, settings: ModelSettings, execution: Execution) -> SharedModel:
        """Have a model loaded by every follower. Raises ModelLoadFailed."""
        shares.warn(settings, self.count)
        return await self._models.add(settings, execution)

    async def agree(self) -> None:
        """Wait until each follower knows whether this server is ready, and what it does not serve."""
        self._announced = state = self._state()
        await self._models.everywhere(lambda operation: frames.Tell(operation, *state))

    def _state(self) -> tuple[bool, list[tuple[str, str | None, str]]]:
        unserved = self._registry.unserved.items()
        states = [(name, version, state.value) for (name, version), (state, _) in unserved]
        return self._registry.ready, states

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if self._state() != self._announced:
                await self.agree()

    async def _keep(self, index: int) -> None:
        failures = 0
        while not self._draining:
            since = monotonic()
            served = await self._life(index)
            failures = 0 if served else failures + 1
            if failures == ATTEMPTS and not self._complete.is_set():
                text = f"A front end ended before it served, {failures} times in a row; the log says how."
                self._given_up = InferstreamError(text)
                self._complete.set()
                return
            if failures:
                pause = min(2.0 ** (failures - 1), LONGEST) - (monotonic() - since)
                await asyncio.sleep(max(pause, 0.0))

    async def _life(self, index: int) -> bool:
        """Start a follower and return at its end; whether it has served."""
        try:
            variables = self._files.variables() if self._settings.metrics_endpoint else {}
            member = Member(self, variables, self._memory)
        except OSError as error:
            logger.error("a front end cannot be started: %s", error.strerror)
            return False
        self._own.started += 1
        self._files.started(member.pid)
        joining = asyncio.create_task(self._join(member, self._greet(index, member)))
        served = False
        try:
            await member.ended.wait()
        finally:
            joining.cancel()
            served = member.served
            self._models.members.remove(member)
            self._past.add(member.families, over=True)
            self._files.ended(member.pid)
            self._loads.forget(index)
            self._count_serving()
        self._own.lost += 1
        logger.error("front end %d %s", member.pid, member.how)
        return served

    def _greet(self, index: int, member: Member) -> list[asyncio.Task[None]]:
        """Tell a new follower all there is, before anything else can be told to it; what it has to do with it."""
        settings = self._settings.model_dump_json(by_alias=True).encode()
        member.send(frames.Configure(settings, index, self.count, self._ports, shared_folders()))
        for worker, (group, process) in self._workers.items():
            self._introduce(member, worker, group, process)
        self._models.members.append(member)
        return self._models.replay(member)

    async def _join(self, member: Member, replaying: list[asyncio.Task[None]]) -> None:
        """Let a follower open its ports once it is in step with this server."""
        try:
            await asyncio.gather(*replaying)
            state = self._state()
            await member.do(lambda operation: frames.Tell(operation, *state), self._models.patience)
            await member.do(frames.OpenPorts, self._models.patience)
        except WorkerLost:
            return
        except InferstreamError as error:
            logger.error("front end %d cannot serve: %s", member.pid, error.message)
            member.kill()
            return
        member.serves = member.served = True
        self._count_serving()
        if self._own.serving == self.count:
            self._complete.set()

    def _count_serving(self) -> None:
        self._own.serving = 1 + sum(member.serves for member in self._models.members)

    def introduce(self, group: WorkerGroup, process: SharedProcess) -> None:
        """Give every follower a way to a worker that has started."""
        worker = next(self._numbers)
        self._workers[worker] = (group, process)
        process.share(self._loads.begin(worker))
        for member in self._models.members:
            self._introduce(member, worker, group, process)
        self._spawn(self._mourn(worker, process))

    def _introduce(self, member: Member, worker: int, group: WorkerGroup, process: SharedProcess) -> None:
        try:
            member.introduce(worker, group.number, process)
        except OSError as error:
            if not process.ended.is_set() and not member.ended.is_set():
                logger.error("front end %d goes without worker %d: %s", member.pid, process.pid, error)

    async def _mourn(self, worker: int, process: SharedProcess) -> None:
        await process.ended.wait()
        self._workers.pop(worker, None)
        for member in self._models.members:
            member.send(frames.Lost(worker, process.how))

    def withdraw(self, process: WorkerProcess) -> None:
        """A worker gets no more calls."""
        for worker, (_, known) in list(self._workers.items()):
            if known is process:
                del self._workers[worker]
                for member in self._models.members:
                    member.send(frames.Retired(worker))

    def replace(self, frame: frames.Replace) -> None:
        """A follower has found that a worker is of no use any more."""
        if frame.worker in self._workers:
            group, process = self._workers[frame.worker]
            group.replace(process, frame.why)

    def asked(self, member: Member, frame: frames.Query) -> None:
        """A follower asks on behalf of a client."""
        self._spawn(run_query(member, frame, self._registry, self.exposition))

    async def exposition(self) -> bytes:
        """The meters of all front ends in Prometheus' text format."""
        await asyncio.gather(*(member.count(SCRAPE) for member in self._models.members if member.serves))
        sums = Sums()
        sums.add(families_of(self._meters.families()))
        for member in self._models.members:
            sums.add(member.families)
        sums.add(families_of(self._past.collect()))
        return sums.exposition()

    async def drain(self, grace: float) -> None:
        """Have every follower refuse new calls, and wait until those in progress have ended."""
        self._draining = True
        draining = (
            member.do(lambda operation: frames.Drain(operation, grace), None)
            for member in self._models.members
        )
        await asyncio.gather(*draining, return_exceptions=True)

    async def stop(self, seconds: float) -> bool:
        """End every follower within so many seconds; False when one had to be killed."""
        members = list(self._models.members)
        for keeper in self._keepers:
            keeper.cancel()
        ended = await asyncio.gather(*(member.end(seconds) for member in members))
        for task in self._tasks:
            task.cancel()
        os.close(self._memory)
        return all(ended)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
