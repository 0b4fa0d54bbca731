"""Runs one schedule: everything between the doors and the model's code, from the load of a model to its end."""

import asyncio
import gc
import logging
import sys
import time
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

from inferstream.dataplane.access import Authority
from inferstream.dataplane.call import Call
from inferstream.dataplane.dataplane import DataPlane
from inferstream.dataplane.execution.base import Execution
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.registry import Registry
from inferstream.dataplane.stages.limits import Limits
from inferstream.dataplane.workers.frames import Loaded
from inferstream.dataplane.workers.pool import Pool
from inferstream.model import MLModel
from inferstream.repository.base import InMemoryRepository
from inferstream.settings import ModelSettings, Settings
from inferstream.signature import SIGNATURE
from inferstream.telemetry.metrics import Meters
from inferstream.telemetry.model_meters import ModelMeters

from . import models
from .clients import Client
from .invariants import PATIENCE, check_end, check_schedule
from .ledger import Ledger
from .loop import VirtualLoop
from .plans import Plan, plan_of
from .threads import without_threads
from .workers import VirtualGroup

SERVER = Settings(cache_enabled=True, _env_file=None)  # type: ignore[call-arg]
MODEL = ModelSettings(implementation=models.Plain, name="m")


class Schedule:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.meters: ModelMeters
        self.random = Random(plan.seed + 2)
        self.loop = VirtualLoop(Random(plan.seed + 3))
        self.ledger = Ledger(plan, self.loop)
        self.groups: list[VirtualGroup] = []

    def run(self) -> None:
        """Raises AssertionError for a broken promise."""
        loop = self.loop
        try:
            loop.run_until_complete(self._run())
            loop.settle()
            check_end(self)
        finally:
            for task in asyncio.all_tasks(loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
            loop.close()

    async def _run(self) -> None:
        plan, ledger = self.plan, self.ledger
        server = SERVER.model_copy(update={"shutdown_grace": plan.grace})
        settings = MODEL.model_copy(update=plan.settings)
        meters = Meters()
        access = Authority(server)
        registry = Registry(server, access, InMemoryRepository([settings]), self._load, meters)
        dataplane = DataPlane(server, registry, access)
        await registry.load("m")
        self.meters = meters.of("m", None)
        slots = free_slots(registry)
        clients = [Client(ledger, dataplane, seen, number) for number, seen in enumerate(ledger.seen)]
        tasks = [self.loop.create_task(client.run()) for client in clients]
        for seconds, event in plan.events:
            self.loop.outside(seconds, self._begin, registry, event)
        await asyncio.wait(tasks)
        del tasks, clients
        stubborn = PATIENCE * sum(work.swallows for work in plan.works.values())
        await asyncio.sleep(max((seconds for seconds, _ in plan.events), default=0.0) + stubborn + 0.05)
        if not plan.settings.get("cache_enabled"):  # whose computations outlive their callers
            for timer in self.loop._scheduled:  # type: ignore[attr-defined]
                ended = isinstance(getattr(timer._callback, "__self__", None), Call)
                assert timer.cancelled() or not ended, f"a timer waits for a call that has ended: {timer}"
        while ledger.tasks:
            await ledger.tasks.pop()
        check_schedule(self)
        if registry._served:
            assert free_slots(registry) == slots, f"{free_slots(registry)} slots are free of {slots}"
        await registry.stop(plan.grace)
        await registry.unload_all(1000.0)

    def _begin(self, registry: Registry, event: str) -> None:
        if event == "crash":
            for group in self.groups[-1:]:
                if group.processes:
                    group.crash(self.random.choice(group.processes))
            return
        if self.ledger.changed is None:
            self.ledger.changed = self.loop.time()
        change = {
            "unload": partial(registry.unload, "m"),
            "reload": partial(registry.load, "m"),
            "stop": partial(registry.stop, self.plan.grace),
        }
        self.ledger.tasks.append(self.loop.create_task(change[event]()))

    async def _load(self, settings: ModelSettings) -> Execution:
        if self.plan.kind != "workers":
            return self._local(settings)
        group = VirtualGroup(self.ledger, self.random, partial(self._worker, settings))
        self.groups.append(group)
        local = group.processes[0].local
        loaded = Loaded(
            1,
            SIGNATURE.dump_json(local.signature),
            local.capabilities,
            local.slots,
            [],
            local.strictness,
            b"{}",
        )
        loaded.metadata = None
        return Pool(settings, group, 1, loaded, settings.request_timeout)

    def _worker(self, settings: ModelSettings) -> Local:
        own = settings.model_copy()
        own.max_concurrency = own.worker_concurrency
        return self._local(own)

    def _local(self, settings: ModelSettings) -> Local:
        kinds: dict[str, type[MLModel]] = {
            "threads": models.Threads,
            "steps": models.AsyncSteps if self.plan.asynchronous else models.ThreadSteps,
        }
        model = kinds.get(self.plan.kind, models.Plain)(settings)
        model.ledger = self.ledger  # type: ignore[attr-defined]
        model.ready = True
        return without_threads(Local(model), self.loop, self.random)


def free_slots(registry: Registry) -> list[int]:
    """The free slots of each limit around a model, from the outside in."""
    free: list[int] = []
    for served in registry._served.values():
        handler: Any = served.handler
        while handler is not None:
            if isinstance(handler, Limits):
                free.append(handler.free)
            handler = getattr(handler, "_inner", None)
    return free


def _clock(real: Callable[[], float]) -> Callable[[], float]:
    def clock() -> float:
        loop = events._get_running_loop()
        return loop.time() if isinstance(loop, VirtualLoop) else real()

    return clock


@contextmanager
def virtual_time() -> Iterator[None]:
    """Every clock that the package reads is that of the virtual loop. Nothing is logged, nothing is collected."""
    clocks = {clock: _clock(clock) for clock in (time.perf_counter, time.monotonic)}
    replaced = [
        (module, name, value)
        for module in [*sys.modules.values()]
        if getattr(module, "__name__", "").startswith("inferstream.")
        for name, value in vars(module).items()
        if value is time.perf_counter or value is time.monotonic
    ]
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    collects = gc.isenabled()
    gc.disable()
    for module, name, value in replaced:
        setattr(module, name, clocks[value])
    try:
        yield
    finally:
        for module, name, value in replaced:
            setattr(module, name, value)
        logging.disable(before)
        if collects:
            gc.enable()


def run(seed: int) -> None:
    """Run the schedule of a seed. Raises AssertionError for a broken promise."""
    Schedule(plan_of(seed)).run()
