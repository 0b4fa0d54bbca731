"""A worker process that further front ends call."""

import socket

from ...processes import descriptors
from ...processes.spawning import Program
from . import frames
from .instance_meters import InstanceMeters
from .loads import CountedCalls, WorkerLoad
from .process import WorkerProcess


class SharedProcess(WorkerProcess):
    """Takes in callers beside the one that owns it."""

    def __init__(self, program: Program, start: frames.Start, instance_meters: InstanceMeters) -> None:
        self._intake, theirs = descriptors.intake()
        try:
            with theirs:
                super().__init__(program, start, instance_meters, theirs.fileno())
        except BaseException:
            self._intake.close()
            raise

    def share(self, load: WorkerLoad) -> None:
        """Let the others know of the calls of this one, and count theirs; before there are any."""
        self._calls = CountedCalls(load)

    @property
    def active(self) -> int:
        """Calls of all front ends that have not ended in the worker."""
        assert isinstance(self._calls, CountedCalls)
        return self._calls.load.total

    def introduce(self, caller: socket.socket, message: bytes) -> None:
        """Give a front end a way of its own to this worker, through its intake. Raises OSError."""
        descriptors.pass_connection(self._intake, caller, message)

    def _gone(self) -> None:
        self._intake.close()
        super()._gone()
