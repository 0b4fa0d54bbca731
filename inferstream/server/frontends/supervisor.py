"""The supervisor: restarts front ends, keeps their models in sync, and aggregates their metrics."""

import asyncio
import logging
import os
from itertools import count
from time import monotonic
from typing import TypeVar

import msgspec
import orjson

from ...concurrency.tasks import Tasks
from ...dataplane.access import Authority
from ...dataplane.execution.base import Execution
from ...dataplane.peers import PackedQuestion, Peers, Questions
from ...dataplane.registry import LoadModel, Registry
from ...dataplane.workers.call_counts import WorkerLoads, create_loads
from ...dataplane.workers.group import WorkerGroup
from ...dataplane.workers.process import WorkerProcess
from ...errors import InferstreamError, WorkerLost
from ...imports.folders import shared_folders
from ...imports.trusted import TrustedRuntimes
from ...processes.endpoint import Handlers
from ...processes.frames import PeerQuestion, answer_type
from ...settings import ModelSettings, Settings
from ...telemetry.families import Sums, to_families
from ...telemetry.files import MetricFiles
from ...telemetry.metrics import Meters
from ...telemetry.workers import FrontEndMeters
from . import frames
from .access_log import SharedLog
from .models import SharedModel, SharedModels, reduce_to_share, warn_of_small_limits
from .process import FrontEndProcess

A = TypeVar("A")

logger = logging.getLogger("inferstream.server")

CHECK_INTERVAL_SECONDS = 0.25
"""Seconds between checks for changes of the server's state, which are sent to the front ends."""

SCRAPE = 1.0
"""Seconds that a front end may take to report its metrics.

After that, its last report is used, which is at most one second old.
"""

MAX_DELAY_SECONDS = 30.0
"""The maximum delay between two attempts to start a front end, in seconds."""

ATTEMPTS = 4
"""The number of consecutive failed starts of a front end after which the server fails to start."""


class Supervisor:
    """Runs the other front ends of this server, one process each."""

    def __init__(self, settings: Settings, meters: Meters, files: MetricFiles) -> None:
        self.count = settings.frontends
        self._settings = settings
        self._meters = meters
        self._files = files
        self._own = FrontEndMeters()
        meters.add(self._own)
        meters.elsewhere = self.exposition
        self._models = SharedModels(settings.model_load_timeout)
        self._workers: dict[int, tuple[WorkerGroup, WorkerProcess]] = {}
        self._numbers = count(1)
        self._memory = create_loads(self.count)
        self._loads = WorkerLoads(self._memory, 0, self.count)
        self._past = Sums()
        self._tasks = Tasks()
        self._keepers: list[asyncio.Task[None]] = []
        self._complete = asyncio.Event()
        self._given_up: InferstreamError | None = None
        self._announced: object = None
        self._draining = False
        self.peers = Peers(0, self.count, self.ask)
        """Handles questions to the supervisor's own front end, and sends questions to the others."""
        self._questions = questions = Questions(strict=settings.strict)
        self.peers.answers(PackedQuestion, lambda packed: self.peers.answer(questions.unpack(packed)))

    def _build_handlers(self, front_end: FrontEndProcess) -> Handlers:
        return {
            frames.LoadVersions: lambda frame: self._registry.load(frame.name),
            frames.UnloadVersions: lambda frame: self._registry.unload(frame.name),
            frames.ListModels: self._index,
            frames.SumMeters: lambda _: self.exposition(),
            frames.Forward: lambda frame: self.peers.ask(frame.to, frame.question),
            frames.Replace: self._replace,
            frames.Subscribed: lambda frame: self._log.set_subscription(front_end, frame.on),
            frames.Records: lambda frame: self._log.relay(front_end, frame),
        }

    def start(self, registry: Registry, access: Authority, ports: dict[str, int]) -> None:
        """Start the front ends. Each opens these ports once it serves the models of `registry`."""
        self._registry = registry
        self._access = access
        self._log = SharedLog(registry, self._models.front_ends)
        self._ports = ports
        self._keepers = [asyncio.create_task(self._keep_running(index)) for index in range(1, self.count)]
        self._keepers.append(asyncio.create_task(self._watch()))

    @property
    def ready(self) -> bool:
        """Whether every front end has started at least once. This stays true if one exits later."""
        return self._complete.is_set() and self._given_up is None

    async def wait_until_serving(self) -> None:
        """Wait until every front end is serving and has the server's state.

        Raises InferstreamError if a front end cannot start.
        """
        await self._complete.wait()
        if self._given_up is not None:
            raise self._given_up
        await self.sync_states()

    def limit_to_share(self, load: LoadModel) -> LoadModel:
        """Wrap `load` to reduce each model's limits to this front end's share."""

        async def load_share(settings: ModelSettings) -> Execution:
            reduce_to_share(settings, 0, self.count)
            return await load(settings)

        return load_share

    async def add(self, settings: ModelSettings, execution: Execution) -> SharedModel:
        """Load a model in every front end. Raises ModelLoadFailed."""
        warn_of_small_limits(settings, self.count)
        return await self._models.add(settings, execution)

    async def sync_states(self) -> None:
        """Send this server's readiness and the states of models that are not serving to every front end."""
        self._announced = state = self._state()
        await self._models.run_everywhere(frames.Tell(*state))

    def _state(self) -> tuple[bool, list[tuple[str, str | None, str]], bool]:
        unserved = self._registry.unserved.items()
        states = [(name, version, state.value) for (name, version), (state, _) in unserved]
        return self._registry.ready, states, self._registry.leaving

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            if self._state() != self._announced:
                await self.sync_states()

    async def _keep_running(self, index: int) -> None:
        failures = 0
        while not self._draining:
            since = monotonic()
            served = await self._run_front_end(index)
            failures = 0 if served else failures + 1
            if failures == ATTEMPTS and not self._complete.is_set():
                text = f"A front end ended before it served, {failures} times in a row; the log says how."
                self._given_up = InferstreamError(text)
                self._complete.set()
                return
            if failures:
                pause = min(2.0 ** (failures - 1), MAX_DELAY_SECONDS) - (monotonic() - since)
                await asyncio.sleep(max(pause, 0.0))

    async def _run_front_end(self, index: int) -> bool:
        """Start a front end and wait until it exits. Returns whether it has served."""
        try:
            variables = self._files.variables() if self._settings.metrics_endpoint else {}
            memory = [each for each in (self._memory, self._access.shared) if each is not None]
            front_end = FrontEndProcess(index, self._build_handlers, variables, memory)
        except OSError as error:
            logger.error("front end: start failed: %s", error.strerror)
            return False
        self._own.started += 1
        self._files.add_worker(front_end.pid)
        joining = asyncio.create_task(self._join(front_end, self._configure(index, front_end)))
        served = False
        try:
            await front_end.ended.wait()
        finally:
            joining.cancel()
            served = front_end.served
            self._models.front_ends.remove(front_end)
            self._log.forget(front_end)
            self._past.add(front_end.families, over=True)
            self._files.mark_dead(front_end.pid)
            self._loads.forget(index)
            self._access.forget(index)
            self._count_serving()
        self._own.lost += 1
        logger.error("front end %d %s", front_end.pid, front_end.how)
        return served

    def _configure(self, index: int, front_end: FrontEndProcess) -> list[asyncio.Task[None]]:
        """Send the settings, workers and models to a new front end, before any other frame.

        Returns the tasks of the operations that must finish before it serves.
        """
        settings = self._settings.model_dump_json(by_alias=True, exclude_unset=True).encode()
        reloads = self._settings._reloads
        names = self._questions.names
        front_end.send(
            frames.Configure(
                settings,
                index,
                self.count,
                self._ports,
                shared_folders(),
                names,
                reloads,
                TrustedRuntimes.names_in_force(),
            )
        )
        for worker, (group, process) in self._workers.items():
            self._introduce(front_end, worker, group, process)
        self._models.front_ends.append(front_end)
        self._log.update()
        return self._models.replay(front_end)

    async def _join(self, front_end: FrontEndProcess, replaying: list[asyncio.Task[None]]) -> None:
        """Make a front end open its ports once it has the models and the state of this server."""
        try:
            await asyncio.gather(*replaying)
            state = self._state()
            await front_end.do(frames.Tell(*state), self._models.operation_timeout)
            await front_end.do(frames.OpenPorts(), self._models.operation_timeout)
        except WorkerLost:
            return
        except InferstreamError as error:
            logger.error("front end %d: setup failed: %s", front_end.pid, error.message)
            front_end.kill()
            return
        front_end.serves = front_end.served = True
        self._count_serving()
        if self._own.serving == self.count:
            self._complete.set()

    def _count_serving(self) -> None:
        self._own.serving = 1 + sum(front_end.serves for front_end in self._models.front_ends)

    def introduce(self, group: WorkerGroup, process: WorkerProcess) -> None:
        """Connect every front end to a worker that has started."""
        worker = next(self._numbers)
        self._workers[worker] = (group, process)
        process.share(self._loads.begin(worker))
        for front_end in self._models.front_ends:
            self._introduce(front_end, worker, group, process)
        self._tasks.start(self._await_end(worker, process))

    def _introduce(
        self, front_end: FrontEndProcess, worker: int, group: WorkerGroup, process: WorkerProcess
    ) -> None:
        try:
            front_end.introduce(worker, group.number, process)
        except OSError as error:
            if not process.ended.is_set() and not front_end.ended.is_set():
                logger.error(
                    "front end %d: connecting to worker %d failed: %s", front_end.pid, process.pid, error
                )

    async def _await_end(self, worker: int, process: WorkerProcess) -> None:
        await process.ended.wait()
        self._workers.pop(worker, None)
        for front_end in self._models.front_ends:
            front_end.send(frames.Lost(worker, process.how, process.starved))

    def withdraw(self, process: WorkerProcess) -> None:
        """Make every front end stop sending calls to a worker."""
        for worker, (_, known) in list(self._workers.items()):
            if known is process:
                del self._workers[worker]
                for front_end in self._models.front_ends:
                    front_end.send(frames.Retired(worker))

    def _replace(self, frame: frames.Replace) -> None:
        if frame.worker in self._workers:
            group, process = self._workers[frame.worker]
            group.replace(process, frame.why)

    async def ask(self, index: int, question: PeerQuestion[A]) -> A:
        """Send a question to front end `index`, and return its reply.

        Raises WorkerLost if that front end is not serving, or the error that it raised.
        """
        for front_end in self._models.front_ends:
            if front_end.index == index and front_end.serves:
                answer = await front_end.ask(frames.Forward(index, self._questions.pack(question)))
                return msgspec.convert(answer, answer_type(question))
        raise WorkerLost(f"the front end {index} does not serve")

    async def _index(self, frame: frames.ListModels) -> bytes:
        items = await self._registry.index(frame.ready)
        return orjson.dumps([item.model_dump(mode="json") for item in items])

    async def exposition(self) -> bytes:
        """Return the metrics of all front ends in the Prometheus text format."""
        await asyncio.gather(
            *(front_end.count(SCRAPE) for front_end in self._models.front_ends if front_end.serves)
        )
        sums = Sums()
        sums.add(to_families(self._meters.families()))
        for front_end in self._models.front_ends:
            sums.add(front_end.families)
        sums.add(to_families(self._past.collect()))
        return sums.exposition()

    async def drain(self, grace: float) -> None:
        """Make every front end reject new calls, and wait until calls in progress have finished."""
        self._draining = True
        draining = (front_end.do(frames.Drain(grace), None) for front_end in self._models.front_ends)
        await asyncio.gather(*draining, return_exceptions=True)

    async def stop(self, seconds: float) -> bool:
        """Stop every front end within `seconds`. Returns False if one had to be killed."""
        front_ends = list(self._models.front_ends)
        for keeper in self._keepers:
            keeper.cancel()
        ended = await asyncio.gather(*(front_end.end(seconds) for front_end in front_ends))
        self._tasks.cancel()
        os.close(self._memory)
        return all(ended)
