"""The models that the supervisor and all front ends serve."""

import asyncio
import logging
from itertools import count

from ...dataplane.execution.base import Execution
from ...dataplane.workers.group import WorkerGroup, dump
from ...dataplane.workers.pool import Pool
from ...errors import InferstreamError, ModelLoadFailed, WorkerLost, own_status
from ...processes.frames import Query
from ...settings import ModelSettings
from . import frames
from .process import FrontEndProcess

logger = logging.getLogger("inferstream.server")

OPERATION_LIMIT = 30.0
"""Seconds, in addition to the load timeout, after which a front end counts as hung.

The load timeout is added because a load can block a front end.
"""

_numbers = count(1)


class SharedModel:
    """A loaded model that every front end serves."""

    def __init__(self, models: "SharedModels", settings: ModelSettings, execution: Execution) -> None:
        self._models = models
        self._workers = _workers(execution)
        self._settings = dump(settings)
        self._source = settings.source
        self.number = next(_numbers)
        self.serving = False

    def prepare(self) -> frames.Prepare:
        return frames.Prepare(self.number, self._settings, self._source, self._workers)

    async def serve(self) -> None:
        """Make the front ends replace the model of the same name and version with this model."""
        self.serving = True
        await self._models.run_everywhere(frames.Serve(self.number))

    async def withdraw(self) -> None:
        """Make the front ends stop sending calls to this model."""
        self._models.forget(self)
        await self._models.run_everywhere(frames.Withdraw(self.number))

    async def wait_for_release(self) -> None:
        """Wait until every front end has released this model."""
        self._models.forget(self)
        await asyncio.gather(
            *(front_end.wait_for_release(self.number) for front_end in self._models.front_ends)
        )


class SharedModels:
    """Loads the same models in all front ends, including any that start later.

    `timeout` is the load timeout in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self.operation_timeout = timeout + OPERATION_LIMIT
        """Seconds that an operation may take before its front end is killed."""
        self._models: dict[int, SharedModel] = {}
        self.front_ends: list[FrontEndProcess] = []

    async def add(self, settings: ModelSettings, execution: Execution) -> SharedModel:
        """Load a model in every front end.

        Raises ModelLoadFailed after each front end has released the model. A front end that exits during the
        load is not a failure, because its replacement loads all models.
        """
        model = SharedModel(self, settings, execution)
        self._models[model.number] = model
        try:
            preparing = (self._prepare(front_end, model) for front_end in self.front_ends)
            for failure in await asyncio.gather(*preparing, return_exceptions=True):
                if isinstance(failure, BaseException) and not isinstance(failure, WorkerLost):
                    raise failure
        except BaseException as error:  # Includes a cancelled load.
            await model.withdraw()
            await model.wait_for_release()
            if isinstance(error, InferstreamError):
                raise ModelLoadFailed(error.message, own_status(error)) from error.__cause__
            raise
        return model

    def _prepare(self, front_end: FrontEndProcess, model: SharedModel) -> asyncio.Task[None]:
        return front_end.do(model.prepare(), self.operation_timeout)

    def replay(self, front_end: FrontEndProcess) -> list[asyncio.Task[None]]:
        """Send every model to a new front end.

        Returns the tasks of the operations for models that are already serving.
        """
        serving = []
        for model in list(self._models.values()):
            preparing = self._prepare(front_end, model)
            if model.serving:  # `add` handles the failure of the others
                serving += [preparing, front_end.do(frames.Serve(model.number), self.operation_timeout)]
        return serving

    async def run_everywhere(self, operation: Query[None]) -> None:
        """Run an operation in every front end. A front end that fails is killed and replaced."""
        front_ends = list(self.front_ends)
        doing = [front_end.do(operation, self.operation_timeout) for front_end in front_ends]
        outcomes = await asyncio.gather(*doing, return_exceptions=True)
        for front_end, outcome in zip(front_ends, outcomes, strict=True):
            if isinstance(outcome, InferstreamError) and not isinstance(outcome, WorkerLost):
                logger.error("front end %d: %s; killing it", front_end.pid, outcome.message)
                front_end.kill()
            elif isinstance(outcome, BaseException) and not isinstance(outcome, WorkerLost):
                raise outcome

    def forget(self, model: SharedModel) -> None:
        self._models.pop(model.number, None)


def _workers(execution: Execution) -> frames.Workers | None:
    if not isinstance(execution, Pool):
        return None
    group = execution.group
    assert isinstance(group, WorkerGroup)
    return frames.Workers(group.number, group.size, execution.loaded)


def reduce_to_share(settings: ModelSettings, index: int, count: int) -> None:
    """Reduce the limits in `settings` to the share of front end `index` out of `count`.

    The shares add up to the limit. If the limit is smaller than `count`, each share is one.
    """
    for name in ("max_concurrency", "max_queue"):
        limit = getattr(settings, name)
        if limit:
            setattr(settings, name, max(1, limit // count + (index < limit % count)))


def warn_of_small_limits(settings: ModelSettings, count: int) -> None:
    """Log each limit of a model that is smaller than the number of front ends."""
    for name in ("max_concurrency", "max_queue"):
        limit = getattr(settings, name)
        if limit and limit < count:
            logger.warning(
                "model %s: %s %d is less than one per front end (%d front ends); using %d in total",
                settings.name,
                name,
                limit,
                count,
                count,
            )
