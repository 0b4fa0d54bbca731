"""Meter declarations: kind, name, help and labels of each metric.

The declarations are used by scrapes, by the reports of workers and by the table in the documentation. The
values are plain attributes of each set, so that counting costs one addition.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Bounds = tuple[float, ...]
"""The upper bounds of buckets, ascending. The last bucket is unbounded."""

SECONDS: Bounds = (
    *(0.0001, 0.00025, 0.0005),  # fast calls, and streams with several responses per millisecond
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)

COUNTS: Bounds = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Bounds for counts, such as calls in a queue or requests in a batch."""

TOKENS: Bounds = tuple(4**power for power in range(14))
"""Bounds for tokens of a request, as in the OpenTelemetry convention for `gen_ai.client.token.usage`."""


class Buckets(NamedTuple):
    """The bounds of the histograms in seconds that the settings can change."""

    requests: Bounds = SECONDS
    """Calls, HTTP requests and RPCs, from arrival to end."""
    first_item: Bounds = SECONDS
    """From the call to the first response of its stream."""
    between_items: Bounds = SECONDS
    """Between two consecutive responses of a stream."""


class Histogram:
    """A histogram with one bisect per observation, without the lock and label lookup of prometheus_client."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, counts: list[int], total: float) -> None:
        """Add the counts of another histogram with the same bounds."""
        self.counts = [own + other for own, other in zip(self.counts, counts, strict=True)]
        self.total += total

    def buckets(self) -> list[tuple[str, float]]:
        """Return cumulative counts by upper bound, as in the exposition format."""
        buckets, running = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            buckets.append((bound, float(running)))
        return buckets


Key = TypeVar("Key")


class Durations(dict[Key, Histogram]):
    """Histograms of seconds by key. Reading a new key creates its histogram."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds

    def __missing__(self, key: Key) -> Histogram:
        made = self[key] = Histogram(self._bounds)
        return made


class Meter(NamedTuple):
    """The declaration of one series, or of one per key if `by` contains the label names of the keys."""

    kind: Literal["gauge", "counter", "summary", "histogram"]
    name: str
    """The Prometheus name."""
    help: str
    bounds: Bounds = SECONDS
    labels: tuple[str, ...] | None = None
    """The label names of this metric, if they differ from the set's."""
    by: tuple[str, ...] = ()
    fixed: str | None = None
    """The value of the label in `by`, if several attributes are series of one metric."""
    read: Callable[[Any], object] | None = None
    """Computes the value from the set at scrape time, if it is not an attribute.

    None and empty mappings have no series.
    """


def _declare(kind: str) -> Callable[..., Any]:
    """Return a function that declares a meter.

    Type checkers see its result as the attribute's value, as in dataclasses.
    """
    return partial(Meter, kind)  # type: ignore[arg-type]  # always a valid kind


gauge = _declare("gauge")
counter = _declare("counter")
summary = _declare("summary")
histogram = _declare("histogram")


class Changes(NamedTuple):
    """The changes in one process since its last report, in the declared order of the meters."""

    numbers: list[int | float]
    histograms: list[tuple[list[int], float]]


class MeterSet:
    """The meters of one subject, declared as class attributes. Instance attributes hold the values."""

    label_names: ClassVar[tuple[str, ...]] = ("model", "version")
    kinds: ClassVar[dict[str, type["MeterSet"]]] = {}
    """All subclasses, by their names in worker messages."""
    declared: ClassVar[dict[str, Meter]] = {}
    _numbers: ClassVar[list[str]] = []
    _histograms: ClassVar[list[str]] = []

    _reported: list[int | float] | None = None

    def __init_subclass__(cls) -> None:
        MeterSet.kinds[cls.__name__] = cls
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Meter)}
        for name in own:
            delattr(cls, name)  # a class attribute would slow down each access to the instance attribute
        cls.declared = {**cls.declared, **own}
        counted = [(name, meter.kind) for name, meter in cls.declared.items() if meter.read is None]
        cls._numbers = [name for name, kind in counted if kind != "histogram"]
        cls._histograms = [name for name, kind in counted if kind == "histogram"]

    def __init__(self) -> None:
        for name in self._numbers:
            setattr(self, name, 0)
        for name in self._histograms:
            setattr(self, name, Histogram(self.declared[name].bounds))

    def drain(self) -> Changes | None:
        """Return the changes since the last call, to send to another process, or None if nothing changed."""
        numbers = [getattr(self, name) for name in self._numbers]
        histograms = [getattr(self, name) for name in self._histograms]
        reported = self._reported or [0] * len(numbers)
        if numbers == reported and not any(any(histogram.counts) for histogram in histograms):
            return None
        self._reported = numbers
        observed = [(histogram.counts, histogram.total) for histogram in histograms]
        for histogram in histograms:
            histogram.counts, histogram.total = [0] * len(histogram.counts), 0
        return Changes([new - old for new, old in zip(numbers, reported, strict=True)], observed)

    def add(self, changes: Changes) -> None:
        for name, change in zip(self._numbers, changes.numbers, strict=True):
            setattr(self, name, getattr(self, name) + change)
        for name, (counts, total) in zip(self._histograms, changes.histograms, strict=True):
            getattr(self, name).add(counts, total)

    def series(self, attribute: str) -> dict[tuple[str, ...], Any]:
        """Return the values of a meter by key. A single value has an empty key."""
        meter = self.declared[attribute]
        value = getattr(self, attribute) if meter.read is None else meter.read(self)
        if meter.fixed is not None:
            value = {meter.fixed: value}
        if not isinstance(value, dict):
            return {} if value is None else {(): value}
        return {(key,) if isinstance(key, str) else key: each for key, each in value.items()}

    def gauges(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self._numbers if self.declared[name].kind == "gauge"}

    def take_back(self, share: "MeterSet") -> None:
        """Subtract the gauges of a process that has exited."""
        for name, gauge in share.gauges().items():
            setattr(self, name, getattr(self, name) - gauge)


class Single(MeterSet):
    """The meters of a unique subject, without labels."""

    label_names = ()

    def collect(self) -> "Iterable[Metric]":
        from .families import families  # imported lazily: workers do not need `prometheus_client`

        return families(type(self), [((), self)])
