"""What the end of a worker process tells besides that it has ended."""

from ...errors import WorkerLost


class NeverStarted(WorkerLost):
    """The worker has ended before it came to this call, which another may therefore run."""


class Suspected(WorkerLost):
    """The worker has ended while it changed several models; nobody knows which of them ended it."""
