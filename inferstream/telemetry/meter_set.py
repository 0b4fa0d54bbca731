"""Meters that one process counts and another adds to its own."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple


class Changes(NamedTuple):
    """Changes in one process since its last report, in the declared order of the meters."""

    gauges: list[int]
    counters: list[int]
    histograms: list[tuple[list[int], float]]


class MeterSet:
    """Meters of one subject; each kind names its attributes. The end of a process removes its share of the gauges."""

    gauges: ClassVar[tuple[str, ...]] = ()
    counters: ClassVar[tuple[str, ...]] = ()
    histograms: ClassVar[tuple[str, ...]] = ()

    _drained: tuple[list[int], list[int]] | None = None

    def drain(self) -> Changes | None:
        """Changes since the last call of this, for another process; None without any."""
        gauges, counters = self._numbers(self.gauges), self._numbers(self.counters)
        histograms = [getattr(self, name) for name in self.histograms]
        drained = self._drained or ([0] * len(gauges), [0] * len(counters))
        if (gauges, counters) == drained and not any(any(histogram.counts) for histogram in histograms):
            return None
        self._drained = (gauges, counters)
        observed = [(histogram.counts, histogram.total) for histogram in histograms]
        for histogram in histograms:
            histogram.counts, histogram.total = [0] * len(histogram.counts), 0
        return Changes(_differences(gauges, drained[0]), _differences(counters, drained[1]), observed)

    def _numbers(self, names: Sequence[str]) -> list[int]:
        return [getattr(self, name) for name in names]

    def add(self, changes: Changes) -> None:
        self._shift(self.gauges, changes.gauges)
        self._shift(self.counters, changes.counters)
        for name, (counts, total) in zip(self.histograms, changes.histograms, strict=True):
            getattr(self, name).add(counts, total)

    def take_back(self, gauges: Sequence[int]) -> None:
        """Remove the share of a process that has ended."""
        self._shift(self.gauges, [-gauge for gauge in gauges])

    def _shift(self, names: Sequence[str], changes: Sequence[int]) -> None:
        for name, change in zip(names, changes, strict=True):
            setattr(self, name, getattr(self, name) + change)


def _differences(now: list[int], before: list[int]) -> list[int]:
    return [new - old for new, old in zip(now, before, strict=True)]
