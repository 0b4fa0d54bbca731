"""What one worker process adds to the meters of its models: of their steps, and of calls that waited there."""

from collections.abc import Mapping

from ...telemetry.queues import QueueMeters
from ...telemetry.steps import StepMeters
from .frames import Queued, Stepped


class InstanceMeters:
    """Counts into `meters` and `queues`, by instance; a process that ends takes its streams out of the gauges."""

    def __init__(
        self, meters: Mapping[int, StepMeters], queues: Mapping[int, QueueMeters] | None = None
    ) -> None:
        self._meters = meters
        self._queues = {} if queues is None else queues
        self._streams: dict[int, tuple[int, int]] = {}

    def came(self, frame: Stepped) -> None:
        """The process has told what its steps have done."""
        meters = self._meters.get(frame.instance)
        if meters is None:
            return
        meters.add(frame.changes)
        active, waiting = self._streams.get(frame.instance, (0, 0))
        self._streams[frame.instance] = (active + frame.changes.active, waiting + frame.changes.waiting)

    def waited(self, frame: Queued) -> None:
        """The process has told what became of calls that waited in it."""
        queue = self._queues.get(frame.instance)
        if queue is not None:
            queue.add(frame.changes)

    def gone(self) -> None:
        """The process has ended, and its streams with it."""
        for instance, (active, waiting) in self._streams.items():
            meters = self._meters.get(instance)
            if meters is not None:
                meters.active -= active
                meters.waiting -= waiting
        self._streams.clear()
