"""Residency: which models are in memory, and which to evict if memory is short.

A `Resident` is a model with separate workers that can be evicted. It is in use, idle, loading, being evicted,
or evicted.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Protocol

from ..concurrency.tasks import Tasks
from ..processes.errors import OutOfMemory
from ..settings.sizes import shown_size
from ..telemetry.stages import ResidencyMeters
from .access import evicts_var
from .first_calls import ModelKey
from .reply import Watcher

logger = logging.getLogger("inferstream.dataplane")

HOST = "memory"
"""The key of host memory in `Bytes`. The other keys are devices."""

Bytes = Mapping[str, int]

CHECK_INTERVAL_SECONDS = 0.25
"""Minimum seconds between two measurements of all models. Each one also checks for idle models."""

MIN_PAUSE_FACTOR = 20
"""Minimum pause after a measurement, as a multiple of its duration.

To measure a process, the kernel walks all its pages.
"""

MAX_SIZES = 1024

PATIENCE = 10.0
"""Seconds that a load waits for models in use to become idle before its calls are rejected."""


EVICTION = " Idle models leave for a key with the scope repository, or with the setting clients_may_evict."


class ModelWorkers(Protocol):
    """The workers of one model."""

    def processes(self) -> list[int]:
        """Return the process ids of the workers."""

    async def start(self) -> None:
        """Start the workers and load the model. Raises ModelLoadFailed."""

    async def stop(self) -> None:
        """Unload the model and stop the workers, which frees their memory."""


class Resident(Watcher):
    """A model that can be evicted from memory. Each use starts with `enter` and ends with `left`."""

    def __init__(
        self, residency: "Residency", key: ModelKey, home: ModelWorkers, pinned: bool, size: Bytes
    ) -> None:
        self.key = key
        self.name = key[0]
        self.home = home
        self.pinned = pinned
        self.keep = residency.idle
        """Seconds without a use after which the model is evicted. None for no limit."""
        self.meters = ResidencyMeters()
        self.size = size
        """The memory of the workers at the last measurement. Empty before the first one."""
        self.loaded = False
        self.users = 0
        self.used = residency.clock()
        """The time at which the last use started or ended."""
        self.coming: asyncio.Task[None] | None = None
        self.going: asyncio.Task[None] | None = None
        self._residency = residency

    @property
    def present(self) -> bool:
        """Whether the workers use memory."""
        return self.loaded or self.going is not None

    @property
    def movable(self) -> bool:
        """Whether the model can be evicted now."""
        return self.loaded and not self.users and not self.pinned

    @property
    def seconds_left(self) -> float | None:
        """Seconds until an unused model is evicted for being idle. None if it stays in memory."""
        if self.keep is None or self.pinned:
            return None
        return max(self.used + self.keep - self._residency.clock(), 0)

    @property
    def state(self) -> str:
        """The state as a message for the repository index."""
        if self.coming is not None:
            return "loading"
        return f"in memory: {shown_size(self.size.get(HOST, 0))}" if self.loaded else "the next call loads it"

    async def enter(self) -> None:
        """Start a use. Loads the model if it is not in memory. Raises ModelLoadFailed or OutOfMemory."""
        self.users += 1
        self.used = self._residency.clock()
        if not self.loaded:
            try:
                if not self._residency.calls_evict:
                    evicts_var.set(False)
                await self._residency.load(self)
            except BaseException:  # Including cancellation.
                self.leave()
                raise

    def leave(self) -> None:
        """End a use."""
        self.users -= 1
        self.used = self._residency.clock()
        if not self.users:
            self._residency.news.set()

    def end(self, error: BaseException | None) -> None:
        """End the use of a stream that has ended."""
        self.leave()

    def meter(self, meters: ResidencyMeters) -> None:
        """Add the counts so far to `meters`, and continue to count there."""
        if (early := self.meters.drain()) is not None:
            meters.add(early)
        self.meters = meters

    def set_size(self, size: Bytes) -> None:
        self.meters.memory += size.get(HOST, 0) - self.size.get(HOST, 0) * self.present
        self.size = size


class Residency:
    """The models that can be evicted.

    `limits` restricts the memory of their workers. `measure` returns the memory of processes, given their
    ids. Both are in bytes.
    """

    def __init__(
        self,
        limits: Bytes,
        idle: float | None,
        measure: Callable[[Sequence[int]], Bytes],
        others: Callable[[], list[int]] = list,
        clock: Callable[[], float] = monotonic,
        calls_evict: bool = True,
        names_models: bool = True,
    ) -> None:
        """`others` returns the ids of processes without a model, whose memory also counts.

        `calls_evict` is whether loads for calls may evict other models, if `evicts_var` also allows it.
        `names_models` is whether error messages may name other models.
        """
        self.calls_evict = calls_evict
        self._names_models = names_models
        self.limits = limits
        self.idle = idle
        self.clock = clock
        self.news = asyncio.Event()
        """Set when a model has become idle or was evicted."""
        self.residents: set[Resident] = set()
        self._measure = measure
        self._others = others
        self._spent: Bytes = {}
        """The memory of `others` at the last measurement."""
        self._sizes: dict[ModelKey, Bytes] = {}
        """The memory of the last `MAX_SIZES` removed models."""
        self._room: dict[Resident, Bytes] = {}
        """The memory that is reserved for loads in progress."""
        self._tasks = Tasks()
        self._looking: asyncio.Task[None] | None = None

    def add(self, key: ModelKey, home: ModelWorkers, pinned: bool) -> Resident:
        resident = Resident(self, key, home, pinned, self._sizes.get(key, {}))
        self.residents.add(resident)
        if self._looking is None:
            self._looking = asyncio.create_task(self._keep_checking())
        return resident

    async def remove(self, resident: Resident) -> None:
        """Unload a model permanently. The caller must not start any more calls to it."""
        if resident.coming is not None:
            resident.coming.cancel()
        while (moving := resident.coming or resident.going) is not None:
            await asyncio.wait([moving])
        if resident.loaded:
            await asyncio.wait([self._start_unload(resident)])
        self.residents.discard(resident)
        if resident.size:
            others = [item for item in self._sizes.items() if item[0] != resident.key]
            self._sizes = dict([*others, (resident.key, resident.size)][-MAX_SIZES:])

    def forget(self, name: str) -> None:
        """Forget the size of a model that may have changed."""
        self._sizes = {key: size for key, size in self._sizes.items() if key[0] != name}

    async def load(self, resident: Resident) -> None:
        """Wait until a model is in memory. All callers share one load. Raises ModelLoadFailed or OutOfMemory."""
        began = self.clock()
        while not resident.loaded:
            if resident.coming is None or resident.coming.done():  # `_came` has not run yet.
                resident.coming = self._tasks.start(self._load(resident))
                resident.coming.add_done_callback(partial(self._finish_load, resident))
            await asyncio.shield(resident.coming)
        resident.meters.waits.observe(self.clock() - began)

    async def _load(self, resident: Resident) -> None:
        if resident.going is not None:
            await asyncio.wait([resident.going])
        await self._make_room(resident)
        await resident.home.start()
        size = resident.size
        try:
            size = await self._size(resident)
        finally:  # Also after cancellation, so that `remove` unloads the model.
            resident.set_size(size)
            resident.loaded = True
            resident.used = self.clock()
            resident.meters.loaded += 1
            resident.meters.loads += 1
            del self._room[resident]
        # The actual size is known only after the load.
        if self._lacks_memory(resident, resident.size, fixed=True) or (
            self._exceeded_kinds() and not evicts_var.get()
        ):
            await asyncio.wait([self._evict(resident)])
            raise self._refusal(resident, resident.size)
        await self._shrink()

    def _finish_load(self, resident: Resident, bringing: asyncio.Task[None]) -> None:
        self._room.pop(resident, None)
        resident.coming = None if resident.coming is bringing else resident.coming
        self.news.set()
        if not bringing.cancelled():
            bringing.exception()  # Retrieved, in case all callers have been cancelled.

    async def _make_room(self, resident: Resident) -> None:
        """Evict idle models until this one fits, and reserve memory for it. Raises OutOfMemory."""
        until = self.clock() + PATIENCE
        while True:
            need = self._estimate(resident)
            if self._lacks_memory(resident, need, fixed=True):
                raise self._refusal(resident, need)
            if not self._lacks_memory(resident, need):
                oldest = self._oldest(self._exceeded_kinds(need))
                if oldest is None:
                    self._room[resident] = need
                    return
                if not evicts_var.get():
                    raise self._refusal(resident, need)
                await asyncio.wait([self._evict(oldest)])
                continue
            if self.clock() >= until:
                raise self._refusal(resident, need)
            self.news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(until - self.clock()):
                    await self.news.wait()

    def _estimate(self, resident: Resident) -> Bytes:
        """Estimate the memory that a model needs.

        It is the last measured size of the model, if any. A new model may need as much as the largest model,
        up to the amount that evictions can free.
        """
        if resident.size:
            return resident.size
        most = {
            kind: max((each.size.get(kind, 0) for each in self.residents), default=0) for kind in self.limits
        }
        fixed = {kind: self._unavailable_bytes(resident, kind, fixed=True) for kind in self.limits}
        return {kind: max(min(most[kind], self.limits[kind] - fixed[kind]), 0) for kind in self.limits}

    def _unavailable_bytes(self, resident: Resident, kind: str, fixed: bool = False) -> int:
        """Return the bytes that evictions cannot free for this model now or, if `fixed`, can never free."""
        others = [each for each in self.residents if each.present and each is not resident]
        stay = [each for each in others if each.pinned or not (fixed or each.movable)]
        rooms = 0 if fixed else sum(room.get(kind, 0) for room in self._room.values())
        return self._spent.get(kind, 0) + rooms + sum(each.size.get(kind, 0) for each in stay)

    def _lacks_memory(self, resident: Resident, need: Bytes, fixed: bool = False) -> bool:
        """Whether a model does not fit after all possible evictions.

        If `fixed`, all other models are assumed to be idle.
        """
        return any(
            self._unavailable_bytes(resident, kind, fixed) + need.get(kind, 0) > limit
            for kind, limit in self.limits.items()
        )

    def _exceeded_kinds(self, need: Bytes | None = None) -> set[str]:
        """Return the kinds of memory whose use exceeds the limit, or would if `need` is added."""
        return {
            kind
            for kind, limit in self.limits.items()
            if self.total(kind) + (need or {}).get(kind, 0) > limit
        }

    def total(self, kind: str = HOST) -> int:
        """Return the bytes that workers use and that loads in progress have reserved."""
        present = sum(each.size.get(kind, 0) for each in self.residents if each.present)
        return present + self._spent.get(kind, 0) + sum(room.get(kind, 0) for room in self._room.values())

    def _oldest(self, short: set[str]) -> Resident | None:
        """Return the least recently used model that can be evicted and uses a kind of memory in `short`."""
        may_leave = (each for each in self.residents if each.movable and any(map(each.size.get, short)))
        return min(may_leave, key=lambda each: each.used, default=None)

    def _evict(self, resident: Resident) -> asyncio.Task[None]:
        """Evict a model until its next call. The task is done once its memory has been freed."""
        resident.meters.evictions += 1
        logger.info("unloading model %s to free memory", resident.name, extra={"brief": True})
        return self._start_unload(resident)

    def _start_unload(self, resident: Resident) -> asyncio.Task[None]:
        resident.loaded = False
        resident.meters.loaded -= 1
        resident.meters.memory -= resident.size.get(HOST, 0)
        resident.going = self._tasks.start(self._unload(resident))
        return resident.going

    async def _unload(self, resident: Resident) -> None:
        try:
            await resident.home.stop()
        except Exception:
            logger.exception("model %s: unloading to free memory failed", resident.name)
        finally:
            resident.going = None
            self.news.set()

    async def relieve(self) -> None:
        """Evict every idle model, because a process has run out of memory."""
        going = [self._evict(each) for each in self.residents if each.movable]
        if going:
            await asyncio.wait(going)

    async def _shrink(self) -> None:
        while (oldest := self._oldest(self._exceeded_kinds())) is not None:
            await asyncio.wait([self._evict(oldest)])

    def _refusal(self, resident: Resident, need: Bytes) -> OutOfMemory:
        kind = next((kind for kind in self.limits if kind in self._exceeded_kinds(need)), HOST)
        held = [
            each.name for each in self.residents if each.present and not each.movable and each is not resident
        ]
        names = ", ".join(sorted(held)[:10]) if self._names_models else "other models"
        busy = f", of which {names}, in use or pinned, hold {shown_size(self._unavailable_bytes(resident, kind))}"
        where = "" if kind == HOST else f" of device {kind}"
        may = "" if evicts_var.get() else EVICTION
        return OutOfMemory(
            f"Model {resident.name} needs {shown_size(need.get(kind, 0))} of memory{where}, and the limit is "
            f"{shown_size(self.limits.get(kind, 0))}{busy if held else ''}.{may}"
        )

    async def _size(self, resident: Resident) -> Bytes:
        return await asyncio.to_thread(self._measure, resident.home.processes())

    async def _keep_checking(self) -> None:
        while True:
            began = self.clock()
            try:
                await self.check()
            except Exception:
                logger.exception("measuring the memory of models failed")
            await asyncio.sleep(max(CHECK_INTERVAL_SECONDS, MIN_PAUSE_FACTOR * (self.clock() - began)))

    async def check(self) -> None:
        """Measure every model, and evict models that have been idle for too long or exceed a limit."""
        for resident in [each for each in self.residents if each.loaded]:
            loads, size = resident.meters.loads, await self._size(resident)
            if resident.loaded and resident.meters.loads == loads:  # Not evicted during the measurement.
                resident.set_size(size)
        self._spent = await asyncio.to_thread(self._measure, self._others())
        now = self.clock()
        for resident in self.residents:
            if resident.movable and resident.keep is not None and now - resident.used >= resident.keep:
                self._evict(resident)
        await self._shrink()

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._tasks.cancel()
