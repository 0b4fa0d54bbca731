"""The server load: waiting and running calls, slot utilization and KV cache usage, across all processes."""

import asyncio
from collections.abc import Iterable, Iterator
from time import monotonic, process_time
from typing import NamedTuple

from inferstream.ext.calls import MessagePart, PeerQuestion, ServerParts

FRESH = 0.1
"""Seconds for which a report is reused, because counting costs more than a small response."""


class ModelLoad(MessagePart):
    """The load of one model in one process. `slots` is the number of calls that its code can run at once."""

    model: str
    version: str | None
    in_flight: int
    waiting: int
    slots: int
    kv_used: float = 0.0
    kv_caches: int = 0
    calls: int = 0
    failed: int = 0

    def add(self, other: "ModelLoad") -> None:
        """Add the load of the same model in another process."""
        for name in self.__struct_fields__[2:]:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class ProcessLoad(MessagePart):
    """The load of a front end. `cpu` is in seconds."""

    models: list[ModelLoad]
    cpu: float


class CountLoad(PeerQuestion[ProcessLoad]):
    """A message that requests the current load. If `ends`, the reply includes finished calls."""

    ends: bool


class Load(NamedTuple):
    """The load of one model or of the server."""

    waiting: int = 0
    running: int = 0
    utilization: float = 0.0
    """Waiting and running calls per slot. For the server, the maximum of all models."""
    kv_usage: float = 0.0
    """Fraction of KV caches in use, or 0 if not reported. For the server, the maximum of all models."""


class ServerLoad(NamedTuple):
    total: Load
    models: list[ModelLoad]
    calls: int
    """The number of finished calls, if requested."""
    failed: int
    cpu: float
    """CPU seconds that the front ends have used."""
    at: float
    """The time of the count on the monotonic clock."""


class Loads:
    """Counts the load of all front ends on demand."""

    def __init__(self, parts: ServerParts) -> None:
        assert parts.models is not None
        self._registry = parts.models
        self._peers = parts.peers
        self._peers.answers(CountLoad, self._answer)
        self._latest: ServerLoad | None = None
        self._before: ServerLoad | None = None
        self._counting: asyncio.Task[ServerLoad] | None = None

    async def current(self, ends: bool = False) -> ServerLoad:
        """Return the current load.

        With `ends`, also counts finished calls. Front ends that do not respond are omitted.
        """
        others = [] if self._peers.alone else await self._peers.ask_others(CountLoad(ends))
        return _sum_loads(self._own(ends), others)

    async def totals(self) -> Load:
        """Return the current total load.

        Skips idle models, because endpoint pickers poll up to 20 times per second.
        """
        if not self._peers.alone:
            return (await self.current()).total
        return _sum_loads(ProcessLoad([*self._count(ends=False, idle=False)], 0.0)).total

    def recent(self) -> tuple[ServerLoad, ServerLoad]:
        """Return the latest and the previous load, without waiting.

        Starts a new count after `FRESH` seconds.
        """
        if self._latest is None or monotonic() - self._latest.at >= FRESH:
            if self._latest is None or self._peers.alone:
                self._keep(_sum_loads(self._own(ends=True)))
            if not self._peers.alone and self._counting is None:
                self._counting = asyncio.create_task(self.current(ends=True))
                self._counting.add_done_callback(self._finish_count)
        assert self._latest is not None
        return self._latest, self._before or self._latest

    def find_default_version(self, model: str) -> str | None:
        """Return the version that handles calls without a version."""
        served = self._registry.default(model)
        return None if served is None else served.execution.settings.version

    def _finish_count(self, counting: "asyncio.Task[ServerLoad]") -> None:
        self._counting = None
        if not counting.cancelled() and counting.exception() is None:
            self._keep(counting.result())

    def _keep(self, load: ServerLoad) -> None:
        self._latest, self._before = load, self._latest

    async def _answer(self, question: CountLoad) -> ProcessLoad:
        return self._own(question.ends)

    def _own(self, ends: bool) -> ProcessLoad:
        return ProcessLoad([*self._count(ends)], process_time())

    def _count(self, ends: bool, idle: bool = True) -> Iterator[ModelLoad]:
        """Yield the load of each model in this process.

        Without `idle`, skips models that do not affect the totals.

        Calls that wait in workers are included if the workers report them.
        """
        for (model, version), served in self._registry.items():
            served.execution.measure()
            meters = served.meters
            kv = meters.kv
            if not idle and kv is None and not meters.in_flight:
                continue
            load = ModelLoad(model, version, meters.in_flight, meters.waiting, served.capacity)
            if kv is not None:
                load.kv_used, load.kv_caches = kv.used, kv.caches
            if ends:
                load.calls = meters.every.count
                load.failed = load.calls - meters.won.count
            yield load


def to_load(model: ModelLoad) -> Load:
    """Return the load of one model."""
    return _sum_loads(ProcessLoad([model], 0.0)).total


def _sum_loads(first: ProcessLoad, others: Iterable[ProcessLoad] = ()) -> ServerLoad:
    """Sum the front ends into the first.

    Avoids temporary objects, because pickers poll up to 20 times per second.
    """
    models, cpu = first.models, first.cpu
    for process in others:
        known = {(model.model, model.version): model for model in models}
        cpu += process.cpu
        for model in process.models:
            if (same := known.get((model.model, model.version))) is None:
                models.append(model)
            else:
                same.add(model)
    waiting = running = calls = failed = 0
    utilization = kv_usage = 0.0
    for model in models:
        # Workers report four times per second, so their counts can exceed the current number of calls.
        waits = model.waiting if model.waiting < model.in_flight else model.in_flight
        waiting += waits
        running += model.in_flight - waits
        calls += model.calls
        failed += model.failed
        if model.in_flight and model.slots and (used := model.in_flight / model.slots) > utilization:
            utilization = used
        if model.kv_caches and (used := model.kv_used / model.kv_caches) > kv_usage:
            kv_usage = used
    return ServerLoad(Load(waiting, running, utilization, kv_usage), models, calls, failed, cpu, monotonic())
