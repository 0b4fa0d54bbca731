"""The models that the leader and all followers serve alike."""

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
from .member import Member

logger = logging.getLogger("inferstream.server")

OPERATION_LIMIT = 30.0
"""Seconds a follower may take beyond the time of a load, which may block it, before it counts as hung."""

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
        """Let it answer there too, in the place of one of the same name and version."""
        self.serving = True
        await self._models.everywhere(self.to_serve)

    async def withdraw(self) -> None:
        """Give it no more calls there."""
        self._models.forget(self)
        await self._models.everywhere(lambda operation: frames.Withdraw(operation, self.number))

    async def released(self) -> None:
        """Wait until nobody there holds on to it."""
        self._models.forget(self)
        await asyncio.gather(*(member.released(self.number) for member in self._models.members))


class SharedModels:
    """Sees to it that every follower has them, also one that comes later. `timeout` is that of a load."""

    def __init__(self, timeout: float) -> None:
        self.patience = timeout + OPERATION_LIMIT
        """Seconds after which a follower that has not done what it was told is ended."""
        self._models: dict[int, SharedModel] = {}
        self.members: list[Member] = []

    async def add(self, settings: ModelSettings, execution: Execution) -> SharedModel:
        """Have a model loaded by every follower there is. Raises ModelLoadFailed, and none keeps it then.

        One that ends meanwhile does not count: the next in its place gets what is there.
        """
        model = SharedModel(self, settings, execution)
        self._models[model.number] = model
        try:
            preparing = (self._prepare(member, model) for member in self.members)
            for failure in await asyncio.gather(*preparing, return_exceptions=True):
                if isinstance(failure, BaseException) and not isinstance(failure, WorkerLost):
                    raise failure
        except BaseException as error:
            await model.withdraw()
            await model.released()
            if isinstance(error, InferstreamError):
                raise ModelLoadFailed(error.message, own_status(error)) from None
            raise
        return model

    def _prepare(self, member: Member, model: SharedModel) -> asyncio.Task[None]:
        member.hold(model.number)
        return member.do(model.prepare, self.patience)

    def replay(self, member: Member) -> list[asyncio.Task[None]]:
        """Tell a follower that has just come of every model; what it has to do to be where the others are."""
        serving = []
        for model in list(self._models.values()):
            preparing = self._prepare(member, model)
            if model.serving:  # if not, whoever adds it learns of a failure when it is to serve
                serving += [preparing, member.do(model.to_serve, self.patience)]
        return serving

    async def everywhere(self, make: Callable[[int], frames.FollowerOperation]) -> None:
        """Have every follower do this; one that cannot is replaced by one that can."""
        members = list(self.members)
        doing = [member.do(make, self.patience) for member in members]
        outcomes = await asyncio.gather(*doing, return_exceptions=True)
        for member, outcome in zip(members, outcomes, strict=True):
            if isinstance(outcome, InferstreamError) and not isinstance(outcome, WorkerLost):
                logger.error("front end %d: %s; ending it", member.pid, outcome.message)
                member.kill()
            elif isinstance(outcome, BaseException) and not isinstance(outcome, WorkerLost):
                raise outcome

    def forget(self, model: SharedModel) -> None:
        """Give it to no follower that comes."""
        self._models.pop(model.number, None)


def _workers(execution: Execution) -> frames.Workers | None:
    if not isinstance(execution, Pool):
        return None
    group = execution.group
    assert isinstance(group, WorkerGroup)
    return frames.Workers(group.number, group.size, execution.loaded)


def _dump(settings: ModelSettings) -> bytes:
    return json.dumps(settings.model_dump(by_alias=True, exclude_unset=True, mode="json")).encode()
