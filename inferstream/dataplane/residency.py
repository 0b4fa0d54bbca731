"""Residency: which models are in memory, and which leaves when memory is short.

A `Resident` is a model with workers of its own. It is in use, idle, on its way in or out, or out of memory.
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
"""The key of the host's memory in `Bytes`; others are devices."""

Bytes = Mapping[str, int]

LOOK = 0.25
"""Seconds between two looks at the memory of all models, and at those that are idle."""

SHARE = 20
"""Times that a look took, at least, until the next: the kernel walks through all pages of a process."""

MOST_SIZES = 1024

PATIENCE = 10.0
"""Seconds that a load waits for models in use to become idle, before its calls are refused."""


EVICTION = " Idle models leave for a key with the scope repository, or with the setting clients_may_evict."


class Home(Protocol):
    """The workers of one model."""

    def processes(self) -> list[int]:
        """Their process ids."""

    async def bring(self) -> None:
        """Start them with the model. Raises ModelLoadFailed."""

    async def take(self) -> None:
        """Unload the model and end them, so that their memory is free."""


class Resident(Watcher):
    """A model that may leave memory. Each use begins with `enter` and ends with `left`."""

    def __init__(self, residency: "Residency", key: ModelKey, home: Home, pinned: bool, size: Bytes) -> None:
        self.key = key
        self.name = key[0]
        self.home = home
        self.pinned = pinned
        self.keep = residency.idle
        """Seconds without a use after which it leaves; None for ever."""
        self.meters = ResidencyMeters()
        self.size = size
        """What its workers had when they were last measured; empty before."""
        self.loaded = False
        self.users = 0
        self.used = residency.clock()
        """When its last use began or ended."""
        self.coming: asyncio.Task[None] | None = None
        self.going: asyncio.Task[None] | None = None
        self._residency = residency

    @property
    def present(self) -> bool:
        """Whether its workers have memory."""
        return self.loaded or self.going is not None

    @property
    def movable(self) -> bool:
        """Whether it may leave now."""
        return self.loaded and not self.users and not self.pinned

    @property
    def seconds_left(self) -> float | None:
        """Seconds until it leaves if nobody uses it; None if it stays."""
        if self.keep is None or self.pinned:
            return None
        return max(self.used + self.keep - self._residency.clock(), 0)

    @property
    def state(self) -> str:
        """For people."""
        if self.coming is not None:
            return "loading"
        return f"in memory: {shown_size(self.size.get(HOST, 0))}" if self.loaded else "the next call loads it"

    async def enter(self) -> None:
        """Begin a use. Loads the model if it is not in memory. Raises ModelLoadFailed, OutOfMemory."""
        self.users += 1
        self.used = self._residency.clock()
        if not self.loaded:
            try:
                if not self._residency.calls_evict:
                    evicts_var.set(False)
                await self._residency.load(self)
            except BaseException:  # a cancelled call too
                self.left()
                raise

    def left(self) -> None:
        """End a use."""
        self.users -= 1
        self.used = self._residency.clock()
        if not self.users:
            self._residency.news.set()

    def end(self, error: BaseException | None) -> None:
        """Its stream has ended."""
        self.left()

    def meter(self, meters: ResidencyMeters) -> None:
        """Count here from now on."""
        if (early := self.meters.drain()) is not None:
            meters.add(early)
        self.meters = meters

    def measured(self, size: Bytes) -> None:
        self.meters.memory += size.get(HOST, 0) - self.size.get(HOST, 0) * self.present
        self.size = size


class Residency:
    """The models that may leave. `limits` bound what their workers hold; `measure` looks at processes."""

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
        """`others` are processes that hold memory without a model.

        `calls_evict`: whether loads by calls may make other models leave, if `evicts_var` allows it.
        `names_models`: whether refusals name other models.
        """
        self.calls_evict = calls_evict
        self._names_models = names_models
        self.limits = limits
        self.idle = idle
        self.clock = clock
        self.news = asyncio.Event()
        """A model has become idle, or has left."""
        self.residents: set[Resident] = set()
        self._measure = measure
        self._others = others
        self._spent: Bytes = {}
        """What `others` had at the last look."""
        self._sizes: dict[ModelKey, Bytes] = {}
        """What the last `MOST_SIZES` models to leave for good had."""
        self._room: dict[Resident, Bytes] = {}
        """What loads that are under way may need."""
        self._tasks = Tasks()
        self._looking: asyncio.Task[None] | None = None

    def add(self, key: ModelKey, home: Home, pinned: bool) -> Resident:
        resident = Resident(self, key, home, pinned, self._sizes.get(key, {}))
        self.residents.add(resident)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_on())
        return resident

    async def remove(self, resident: Resident) -> None:
        """Let a model leave for good; its owner has no calls for it any more."""
        if resident.coming is not None:
            resident.coming.cancel()
        while (moving := resident.coming or resident.going) is not None:
            await asyncio.wait([moving])
        if resident.loaded:
            await asyncio.wait([self._leave(resident)])
        self.residents.discard(resident)
        if resident.size:
            others = [item for item in self._sizes.items() if item[0] != resident.key]
            self._sizes = dict([*others, (resident.key, resident.size)][-MOST_SIZES:])

    def forget(self, name: str) -> None:
        """Forget what a model needed, because it may have changed."""
        self._sizes = {key: size for key, size in self._sizes.items() if key[0] != name}

    async def load(self, resident: Resident) -> None:
        """Wait until a model is in memory; one load runs for all who wait. Raises ModelLoadFailed, OutOfMemory."""
        began = self.clock()
        while not resident.loaded:
            if resident.coming is None or resident.coming.done():  # its callback has not run yet
                resident.coming = self._tasks.start(self._bring(resident))
                resident.coming.add_done_callback(partial(self._came, resident))
            await asyncio.shield(resident.coming)
        resident.meters.waits.observe(self.clock() - began)

    async def _bring(self, resident: Resident) -> None:
        if resident.going is not None:
            await asyncio.wait([resident.going])
        await self._make_room(resident)
        await resident.home.bring()
        size = resident.size
        try:
            size = await self._size(resident)
        finally:  # if it is removed meanwhile it has to leave again
            resident.measured(size)
            resident.loaded = True
            resident.used = self.clock()
            resident.meters.loaded += 1
            resident.meters.loads += 1
            del self._room[resident]
        # The size is known only after the load.
        if self._short(resident, resident.size, fixed=True) or (self._over() and not evicts_var.get()):
            await asyncio.wait([self._send_away(resident)])
            raise self._refusal(resident, resident.size)
        await self._shrink()

    def _came(self, resident: Resident, bringing: asyncio.Task[None]) -> None:
        self._room.pop(resident, None)
        resident.coming = None if resident.coming is bringing else resident.coming
        self.news.set()
        if not bringing.cancelled():
            bringing.exception()  # read, in case that all callers have left

    async def _make_room(self, resident: Resident) -> None:
        """Let idle models leave until this one fits, and reserve its place. Raises OutOfMemory."""
        until = self.clock() + PATIENCE
        while True:
            need = self._need(resident)
            if self._short(resident, need, fixed=True):
                raise self._refusal(resident, need)
            if not self._short(resident, need):
                oldest = self._oldest(self._over(need))
                if oldest is None:
                    self._room[resident] = need
                    return
                if not evicts_var.get():
                    raise self._refusal(resident, need)
                await asyncio.wait([self._send_away(oldest)])
                continue
            if self.clock() >= until:
                raise self._refusal(resident, need)
            self.news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(until - self.clock()):
                    await self.news.wait()

    def _need(self, resident: Resident) -> Bytes:
        """What a model had when it was last here. One that is new may need as much as the largest, if that fits."""
        if resident.size:
            return resident.size
        most = {
            kind: max((each.size.get(kind, 0) for each in self.residents), default=0) for kind in self.limits
        }
        fixed = {kind: self._held(resident, kind, fixed=True) for kind in self.limits}
        return {kind: max(min(most[kind], self.limits[kind] - fixed[kind]), 0) for kind in self.limits}

    def _held(self, resident: Resident, kind: str, fixed: bool = False) -> int:
        """Bytes that cannot be freed now for this model: `fixed` are those of models that never leave."""
        others = [each for each in self.residents if each.present and each is not resident]
        stay = [each for each in others if each.pinned or not (fixed or each.movable)]
        rooms = 0 if fixed else sum(room.get(kind, 0) for room in self._room.values())
        return self._spent.get(kind, 0) + rooms + sum(each.size.get(kind, 0) for each in stay)

    def _short(self, resident: Resident, need: Bytes, fixed: bool = False) -> bool:
        """Whether a model does not fit even if all leave that can; if `fixed`, also when all others are idle."""
        return any(
            self._held(resident, kind, fixed) + need.get(kind, 0) > limit
            for kind, limit in self.limits.items()
        )

    def _over(self, need: Bytes | None = None) -> set[str]:
        """The kinds of memory of which too much is in use, if a model with this need comes."""
        return {
            kind
            for kind, limit in self.limits.items()
            if self.total(kind) + (need or {}).get(kind, 0) > limit
        }

    def total(self, kind: str = HOST) -> int:
        """Bytes that workers hold, and that loads under way may need."""
        present = sum(each.size.get(kind, 0) for each in self.residents if each.present)
        return present + self._spent.get(kind, 0) + sum(room.get(kind, 0) for room in self._room.values())

    def _oldest(self, short: set[str]) -> Resident | None:
        """The model that was used least recently, of those that may leave and hold what is short."""
        may_leave = (each for each in self.residents if each.movable and any(map(each.size.get, short)))
        return min(may_leave, key=lambda each: each.used, default=None)

    def _send_away(self, resident: Resident) -> asyncio.Task[None]:
        """Let a model leave until its next call; its memory is free when the task is done."""
        resident.meters.evictions += 1
        logger.info("model %s leaves memory", resident.name, extra={"brief": True})
        return self._leave(resident)

    def _leave(self, resident: Resident) -> asyncio.Task[None]:
        resident.loaded = False
        resident.meters.loaded -= 1
        resident.meters.memory -= resident.size.get(HOST, 0)
        resident.going = self._tasks.start(self._take(resident))
        return resident.going

    async def _take(self, resident: Resident) -> None:
        try:
            await resident.home.take()
        except Exception:
            logger.exception("model %s could not leave in order", resident.name)
        finally:
            resident.going = None
            self.news.set()

    async def relieve(self) -> None:
        """Let every idle model leave, because a process has run out of memory."""
        going = [self._send_away(each) for each in self.residents if each.movable]
        if going:
            await asyncio.wait(going)

    async def _shrink(self) -> None:
        while (oldest := self._oldest(self._over())) is not None:
            await asyncio.wait([self._send_away(oldest)])

    def _refusal(self, resident: Resident, need: Bytes) -> OutOfMemory:
        kind = next((kind for kind in self.limits if kind in self._over(need)), HOST)
        held = [
            each.name for each in self.residents if each.present and not each.movable and each is not resident
        ]
        names = ", ".join(sorted(held)[:10]) if self._names_models else "other models"
        busy = f", of which {names}, in use or pinned, hold {shown_size(self._held(resident, kind))}"
        where = "" if kind == HOST else f" of device {kind}"
        may = "" if evicts_var.get() else EVICTION
        return OutOfMemory(
            f"Model {resident.name} needs {shown_size(need.get(kind, 0))} of memory{where}, and the limit is "
            f"{shown_size(self.limits.get(kind, 0))}{busy if held else ''}.{may}"
        )

    async def _size(self, resident: Resident) -> Bytes:
        return await asyncio.to_thread(self._measure, resident.home.processes())

    async def _look_on(self) -> None:
        while True:
            began = self.clock()
            try:
                await self.look()
            except Exception:
                logger.exception("the memory of models could not be measured")
            await asyncio.sleep(max(LOOK, SHARE * (self.clock() - began)))

    async def look(self) -> None:
        """Measure every model, and let those leave that have been idle too long or for which there is no room."""
        for resident in [each for each in self.residents if each.loaded]:
            loads, size = resident.meters.loads, await self._size(resident)
            if resident.loaded and resident.meters.loads == loads:  # not gone meanwhile
                resident.measured(size)
        self._spent = await asyncio.to_thread(self._measure, self._others())
        now = self.clock()
        for resident in self.residents:
            if resident.movable and resident.keep is not None and now - resident.used >= resident.keep:
                self._send_away(resident)
        await self._shrink()

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._tasks.cancel()
