"""What happened in a schedule, as clients and models saw it."""

import asyncio
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from .loop import SECONDS, VirtualLoop
from .plans import Plan, Visit


@dataclass(eq=False)
class Seen:
    """One call, from its beginning to its end."""

    visit: Visit
    opened: float = -1.0
    """When it came; negative before."""
    opened_turn: int = 0
    deadline: float | None = None
    begun: int = 0
    """Times that its model ran for it."""
    cancelled: str = ""
    """How somebody ended it."""
    items: list[int] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    """The name of its error, or "", for each end that it had."""
    said: str = ""
    ended: float = 0.0
    others: int = 0
    """Calls that had come and not ended when it came, or whose code still ran."""
    request: weakref.ref | None = None

    @property
    def open(self) -> bool:
        return self.opened >= 0 and not self.ends

    def waits(self, now: float) -> bool:
        """Whether it waits and nothing has told it to end."""
        return self.open and not self.begun and not self.cancelled and (self.deadline or now + 1) > now


@dataclass(eq=False)
class Execution:
    """One run of the model's code."""

    values: list[int]
    turn: int
    streams: bool
    lost: bool = False
    """Whether its process has ended."""


class Ledger:
    def __init__(self, plan: Plan, loop: VirtualLoop) -> None:
        self.plan = plan
        self.loop = loop
        self.seen = [Seen(visit) for visit in plan.visits]
        self.random = Random(plan.seed + 1)
        """For what models decide."""
        self.faults: list[str] = []
        """Broken promises that model code has noticed, whose errors a server hides."""
        self.running: list[Execution] = []
        self.tasks: list[asyncio.Task[None]] = []
        """What happens beside the clients."""
        self.most = 0
        self.changed: float | None = None
        """When the model was first unloaded, replaced or stopped."""
        self.crashed = False
        self.step_failed = False
        self.states: list[object] = []
        """States of a model with steps that nobody has released."""
        self.inside: list[object] = []
        """Models with steps of which a method runs now."""

    def began(self, values: list[int], streams: bool) -> Execution:
        execution = Execution(values, self.loop.turns, streams)
        self.running.append(execution)
        self.most = max(self.most, len(self.running))
        now = self.loop.time()
        own = [seen for seen in self.seen if seen.visit.value in values and seen.opened >= 0]
        if self.plan.kind == "plain" and not self._shared and self.changed is None:
            for seen in own:
                self._in_order(seen, now)
        for seen in own:
            seen.begun += 1
        return execution

    @property
    def occupied(self) -> int:
        """Calls that have not ended, and code that still cleans up after its call."""
        values = {seen.visit.value for seen in self.seen if seen.open}
        cleaning = sum(values.isdisjoint(execution.values) for execution in self.running)
        return sum(seen.open or self._in_thread(seen) for seen in self.seen) + cleaning

    def _in_thread(self, seen: Seen) -> bool:
        """Whether a function may run on after its call was ended, as none in a thread can be stopped."""
        left = seen.ends not in ([], [""]) and self.loop.time() - seen.ended <= max(SECONDS)
        return left and self.plan.kind == "threads"

    @property
    def _shared(self) -> bool:
        settings = self.plan.settings
        return bool(settings.get("max_batch_size") or settings.get("cache_enabled"))

    def _in_order(self, seen: Seen, now: float) -> None:
        """Nobody who waits and comes before it, by priority and age, is left behind."""
        for other in self.seen:
            left = other is not seen and other.waits(now) and other.opened_turn < self.loop.turns - 3
            if left and self._key(other) < self._key(seen) - 1e-9:
                self.faults.append(f"value {seen.visit.value} overtook {other.visit.value}")

    def _key(self, seen: Seen) -> float:
        return seen.opened + self.plan.settings["priority_aging"] * (seen.visit.priority or 5)

    def ended(self, execution: Execution) -> None:
        self.running.remove(execution)

    @contextmanager
    def execution(self, values: list[int], streams: bool) -> Iterator[Execution]:
        execution = self.began(values, streams)
        try:
            yield execution
        finally:
            self.ended(execution)

    @contextmanager
    def alone(self, model: object) -> Iterator[None]:
        """Methods of a model with steps never run at the same time."""
        if model in self.inside:
            self.faults.append("two methods of a model with steps ran at once")
        self.inside.append(model)
        try:
            yield
        finally:
            self.inside.remove(model)
