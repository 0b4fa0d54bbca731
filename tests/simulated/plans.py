"""What a seed draws: a model, the calls that it gets, and what happens to it meanwhile."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

KINDS = ("plain", "threads", "batching", "cache", "steps", "workers")

FOREVER = 10_000.0
"""Seconds; longer than the default limit of a call with one response."""


@dataclass
class Work:
    """What the model does for one value."""

    pauses: list[float]
    """Seconds before each item of a stream; a single response waits for all."""
    error: str = ""
    """`model`, or `bug` for an exception of no known kind, in place of the end."""
    cleanup: float = 0.0
    """Seconds of its `finally`."""
    swallows: int = 0
    """Cancels that it ignores."""


@dataclass
class Visit:
    """One call of a client."""

    value: int
    at: float
    streams: bool
    priority: int = 0
    timeout: float | None = None
    cancel: str = ""
    """`task`, `scope` or `id`: how somebody ends it."""
    cancel_step: int = 0
    """The callback of the loop after which this happens."""
    reading: float = 0.0
    """Seconds between two reads."""
    leaves: int = 1000
    """Items after which the reader leaves."""


@dataclass
class Plan:
    seed: int
    kind: str
    settings: dict[str, Any]
    visits: list[Visit]
    works: dict[int, Work]
    events: list[tuple[float, str]] = field(default_factory=list)
    """`unload`, `reload`, `stop` or `crash`, and when."""
    grace: float = 0.05
    asynchronous: bool = True
    """Whether the methods of a model with steps are coroutines."""

    @property
    def slots(self) -> int:
        return int(self.settings["max_concurrency"])

    def said(self, event: str) -> bool:
        return any(name == event for _, name in self.events)


def plan_of(seed: int) -> Plan:
    random = Random(seed)
    kind = random.choice(KINDS)
    plan = Plan(seed, kind, _settings(random, kind), [], {}, asynchronous=random.random() < 0.5)
    plan.grace = random.choice((0.0, 0.01, 0.05, 1.0))
    values = range(random.choice((1, 2, 3))) if plan.settings.get("cache_enabled") else None
    for number in range(random.choice((1, 2, 3, 4, 5, 6, 8, 10))):
        value = number if values is None else random.choice(values)
        plan.visits.append(_visit(random, kind, value))
        plan.works.setdefault(value, _work(random))
    if random.random() < 0.3:
        events = ["unload", "reload", "reload", "stop"]
        plan.events.append((random.uniform(0, 0.08), random.choice(events)))
    if kind == "workers" and random.random() < 0.3:
        plan.events.append((random.uniform(0, 0.06), "crash"))
    return plan


def _settings(random: Random, kind: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "max_concurrency": random.choice((1, 1, 2, 3)),
        "max_queue": random.choice((0, 1, 2, 100, 100, 100)),
        "priority_aging": random.choice((0.0, 0.01, 1.0)),
    }
    if kind == "threads":
        settings["threads"] = random.choice((1, 2, 4))
    if kind == "batching" or (kind != "steps" and random.random() < 0.15):
        settings["max_batch_size"] = random.choice((2, 3, 4))
        settings["max_batch_time"] = random.choice((0.001, 0.01, 0.03))
    if kind == "cache" or (kind != "plain" and random.random() < 0.15):
        settings["cache_enabled"] = True
    if kind == "steps":
        settings["max_active"] = random.choice((1, 2, 3))
    if kind == "workers":
        settings["worker_concurrency"] = random.choice((1, 2, 3))
        settings["stream_buffer"] = random.choice((1, 2, 8))
    if random.random() < 0.1:
        settings["request_timeout"] = random.choice((0.02, 0.1, 5.0))
    if random.random() < 0.1:
        settings["items_per_second"] = random.choice((20.0, 200.0))
    return settings


def _seconds(random: Random) -> float:
    return random.choice((0.0, 0.0, 0.0, 0.001, 0.003, 0.01, random.uniform(0, 0.03)))


def _work(random: Random) -> Work:
    work = Work([_seconds(random) for _ in range(random.choice((0, 1, 1, 2, 3, 5, 12)))])
    if random.random() < 0.2:
        work.error = random.choice(("model", "model", "bug"))
    if random.random() < 0.2:
        work.cleanup = random.choice((0.0, 0.002, 0.02))
    if random.random() < 0.04:
        work.swallows = random.choice((1, 2))
    if random.random() < 0.04:
        work.pauses.append(random.choice((1.0, FOREVER)))
    return work


def _visit(random: Random, kind: str, value: int) -> Visit:
    streams = kind == "steps" or random.random() < (0.2 if kind == "batching" else 0.5)
    visit = Visit(value, random.choice((0.0, 0.0, random.uniform(0, 0.05))), streams)
    visit.priority = random.choice((0, 0, 1, 5, 9))
    if random.random() < 0.25:
        visit.timeout = random.choice((0.0005, 0.005, 0.02, 0.05, random.uniform(0, 0.1)))
    if random.random() < 0.3:
        visit.cancel = random.choice(("task", "task", "scope", "id"))
        visit.cancel_step = random.randrange(1, random.choice((30, 100, 300)))
    if random.random() < 0.3:
        visit.reading = random.choice((0.0005, 0.01, 0.05))
    if random.random() < 0.15:
        visit.leaves = random.choice((0, 1, 2))
    return visit
