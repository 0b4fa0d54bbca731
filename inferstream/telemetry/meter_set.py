"""Meters, each declared once: its kind, name, help and labels.

A scrape, the changes that a worker reports, and the table of the documentation read the declarations. The numbers
are plain attributes of each set, so that counting costs one addition.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

from .histogram import SECONDS, Bounds, Histogram


class Meter(NamedTuple):
    """The declaration of one series, or of one for each key if `by` names the labels of keys."""

    kind: Literal["gauge", "counter", "summary", "histogram"]
    name: str
    help: str
    bounds: Bounds = SECONDS
    labels: tuple[str, ...] | None = None
    """The names of the set's labels in this metric, if it has others or fewer."""
    by: tuple[str, ...] = ()
    fixed: str | None = None
    """The value of the label that `by` names, where several attributes are series of one metric."""
    read: Callable[[Any], object] | None = None
    """Makes the value from the set at a scrape, where it is no attribute. None and empty mappings have no series."""


def _declare(kind: str) -> Callable[..., Any]:
    """A function whose result the type checker takes for the attribute's value, as that of a dataclass's field."""
    return partial(Meter, kind)  # type: ignore[arg-type]  # one of the kinds


gauge = _declare("gauge")
counter = _declare("counter")
summary = _declare("summary")
histogram = _declare("histogram")


class Changes(NamedTuple):
    """Changes in one process since its last report, in the declared order of the meters."""

    numbers: list[int | float]
    histograms: list[tuple[list[int], float]]


class MeterSet:
    """Meters of one subject, declared as attributes of the class; each set has their numbers instead."""

    label_names: ClassVar[tuple[str, ...]] = ("model", "version")
    kinds: ClassVar[dict[str, type["MeterSet"]]] = {}
    """Every class of sets, by the name that it has in frames of workers."""
    declared: ClassVar[dict[str, Meter]] = {}
    _numbers: ClassVar[list[str]] = []
    _histograms: ClassVar[list[str]] = []

    _reported: list[int | float] | None = None

    def __init_subclass__(cls) -> None:
        MeterSet.kinds[cls.__name__] = cls
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Meter)}
        for name in own:
            delattr(cls, name)  # an attribute of the class would slow down each look at the set's own
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
        """Changes since the last call of this, for another process; None without any."""
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

    def gauges(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self._numbers if self.declared[name].kind == "gauge"}

    def take_back(self, share: "MeterSet") -> None:
        """Take away the gauges of a process that has ended."""
        for name, gauge in share.gauges().items():
            setattr(self, name, getattr(self, name) - gauge)
