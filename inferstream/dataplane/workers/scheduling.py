"""Which worker runs a call."""

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from ...telemetry.queues import QueueMeters
from ...telemetry.steps import StepMeters
from ...telemetry.workers import WorkerMeters
from .client import WorkerClient


class Place(Protocol):
    """Where a worker is, or soon will be again."""

    @property
    def process(self) -> WorkerClient | None:
        """The process that is there now."""


P = TypeVar("P", bound=Place)


class Group(ABC, Generic[P]):
    """Workers that run the same models, as the pools of these models see them."""

    def __init__(self, meters: WorkerMeters) -> None:
        self.meters = meters
        self._slots: list[P] = []
        self._turn = 0

    @property
    @abstractmethod
    def size(self) -> int:
        """Workers this group should have."""

    @property
    @abstractmethod
    def empty(self) -> bool:
        """Whether no model needs it."""

    def ready(self, instance: int) -> bool:
        """Whether at least one worker has this model ready."""
        for slot in self._slots:
            process = slot.process
            if process is not None and process.models.get(instance):
                return True
        return False

    def least_busy(self, instance: int) -> WorkerClient | None:
        """The worker with the fewest calls that has this model ready; in turn among equals."""
        best: WorkerClient | None = None
        fewest = 0
        slots = self._slots
        self._turn += 1
        for i in range(len(slots)):
            process = slots[(self._turn + i) % len(slots)].process
            if process is None or not process.models.get(instance):
                continue
            if best is None or process.active < fewest:
                best, fewest = process, process.active
        return best

    @abstractmethod
    def replace(self, process: WorkerClient, why: str) -> None:
        """Have another process put in the place of this one."""

    @abstractmethod
    def meter(self, instance: int, queue: QueueMeters, steps: StepMeters | None) -> None:
        """Count here what the workers tell of a model's calls that waited there, and of its steps."""

    @abstractmethod
    async def unload(self, instance: int) -> None:
        """Let go of a model."""

    @abstractmethod
    async def stop(self) -> None:
        """Let go of every worker."""
