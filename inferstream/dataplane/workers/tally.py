"""What the steps in one worker process add to their models' meters."""

from collections.abc import Mapping

from ...telemetry.steps import StepMeters
from .frames import Stepped


class StepTally:
    """Counts into `meters`, by instance; a process that ends takes its streams out of the gauges again."""

    def __init__(self, meters: Mapping[int, StepMeters]) -> None:
        self._meters = meters
        self._streams: dict[int, tuple[int, int]] = {}

    def came(self, frame: Stepped) -> None:
        """The process has told what its steps have done."""
        meters = self._meters.get(frame.instance)
        if meters is None:
            return
        meters.add(frame.changes)
        active, waiting = self._streams.get(frame.instance, (0, 0))
        self._streams[frame.instance] = (active + frame.changes.active, waiting + frame.changes.waiting)

    def gone(self) -> None:
        """The process has ended, and its streams with it."""
        for instance, (active, waiting) in self._streams.items():
            meters = self._meters.get(instance)
            if meters is not None:
                meters.active -= active
                meters.waiting -= waiting
        self._streams.clear()
