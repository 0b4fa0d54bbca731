"""The models that the leader and all followers serve."""

import asyncio
import json
import logging
from collections.abc import Callable
from itertools import count

from ...dataplane.execution.base import Execution
from ...dataplane.workers.group import WorkerGroup
from ...dataplane.workers.pool import Pool
from ...errors import InferstreamError, ModelLoadFailed, WorkerLost, own_status
from ...settings import ModelSettings
from . import frames
from .follower_process import FollowerProcess

logger = logging.getLogger("inferstream.server")

OPERATION_LIMIT = 30.0
"""Seconds beyond the time of a load, which may block a follower, after which the follower counts as hung."""

_numbers = count(1)


class SharedModel:
    """One loaded model, in the followers."""

    def __init__(self, models: "SharedModels", settings: ModelSettings, execution: Execution) -> None:
        self._models = models
        self._workers = _workers(execution)
        self._settings = _dump(settings)
        self._source = settings.source
        self.number = next(_numbers)
        self.serving = False

    def prepare(self, operation: int) -> frames.Prepare:
        return frames.Prepare(operation, self.number, self._settings, self._source, self._workers)

    def to_serve(self, operation: int) -> frames.Serve:
        return frames.Serve(operation, self.number)

    async def serve(self) -> None:
        """Let the followers serve it in place of the one of the same name and version."""
        self.serving = True
        await self._models.everywhere(self.to_serve)

    async def withdraw(self) -> None:
        """Let the followers send it no more calls."""
        self._models.forget(self)
        await self._models.everywhere(lambda operation: frames.Withdraw(operation, self.number))

    async def released(self) -> None:
        """Wait until each follower has released it."""
        self._models.forget(self)
        await asyncio.gather(*(follower.released(self.number) for follower in self._models.followers))


class SharedModels:
    """Gives every follower the same models, also one that starts later. `timeout` is that of a load."""

    def __init__(self, timeout: float) -> None:
        self.operation_timeout = timeout + OPERATION_LIMIT
        """Seconds after which a follower is ended if an operation is not done."""
        self._models: dict[int, SharedModel] = {}
        self.followers: list[FollowerProcess] = []

    async def add(self, settings: ModelSettings, execution: Execution) -> SharedModel:
        """Load a model in every follower. Raises ModelLoadFailed, after each follower has released the model.

        The end of a follower meanwhile is no failure: its successor gets all models.
        """
        model = SharedModel(self, settings, execution)
        self._models[model.number] = model
        try:
            preparing = (self._prepare(follower, model) for follower in self.followers)
            for failure in await asyncio.gather(*preparing, return_exceptions=True):
                if isinstance(failure, BaseException) and not isinstance(failure, WorkerLost):
                    raise failure
        except BaseException as error:  # a cancelled load too
            await model.withdraw()
            await model.released()
            if isinstance(error, InferstreamError):
                raise ModelLoadFailed(error.message, own_status(error)) from error.__cause__
            raise
        return model

    def _prepare(self, follower: FollowerProcess, model: SharedModel) -> asyncio.Task[None]:
        follower.hold(model.number)
        return follower.do(model.prepare, self.operation_timeout)

    def replay(self, follower: FollowerProcess) -> list[asyncio.Task[None]]:
        """Send a new follower every model; its operations for the models that serve."""
        serving = []
        for model in list(self._models.values()):
            preparing = self._prepare(follower, model)
            if model.serving:  # `add` handles the failure of one that does not serve yet
                serving += [preparing, follower.do(model.to_serve, self.operation_timeout)]
        return serving

    async def everywhere(self, make: Callable[[int], frames.FollowerOperation]) -> None:
        """Run an operation in every follower; a follower that fails is ended and replaced."""
        followers = list(self.followers)
        doing = [follower.do(make, self.operation_timeout) for follower in followers]
        outcomes = await asyncio.gather(*doing, return_exceptions=True)
        for follower, outcome in zip(followers, outcomes, strict=True):
            if isinstance(outcome, InferstreamError) and not isinstance(outcome, WorkerLost):
                logger.error("front end %d: %s; ending it", follower.pid, outcome.message)
                follower.kill()
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


def _dump(settings: ModelSettings) -> bytes:
    return json.dumps(settings.model_dump(by_alias=True, exclude_unset=True, mode="json")).encode()


def divide(settings: ModelSettings, index: int, count: int) -> None:
    """Reduce the limits in these settings to the share of one front end of `count`.

    The shares add up to the limit. If the limit is smaller than `count`, each share is one.
    """
    for name in ("max_concurrency", "max_queue"):
        limit = getattr(settings, name)
        if limit:
            setattr(settings, name, max(1, limit // count + (index < limit % count)))


def warn(settings: ModelSettings, count: int) -> None:
    """Log each limit of a model that is smaller than the number of front ends."""
    for name in ("max_concurrency", "max_queue"):
        limit = getattr(settings, name)
        if limit and limit < count:
            logger.warning(
                "model %s: %s %d is less than one for each of %d front ends, so it is %d in all",
                settings.name,
                name,
                limit,
                count,
                count,
            )
