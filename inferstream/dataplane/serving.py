"""The models that this front end serves, by name and version; they come and go without losing a call."""

import asyncio
import logging
from abc import ABC, abstractmethod
from functools import cmp_to_key
from time import time
from typing import TYPE_CHECKING, Protocol

from ..errors import Draining, ModelNotFound, ModelNotReady
from ..handlers import CustomHandler
from ..settings import Settings
from ..telemetry.metrics import Meters
from ..types import RepositoryIndexResponseItem, State
from .execution.base import Execution
from .pipeline import build_pipeline, build_shared
from .stages.base import Pipeline

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracer

logger = logging.getLogger("inferstream.dataplane")

ModelKey = tuple[str, str | None]


class Elsewhere(Protocol):
    """The same model in the other front ends of this server."""

    async def serve(self) -> None:
        """Let it answer there too, in the place of one of the same name and version."""

    async def withdraw(self) -> None:
        """Give it no more calls there."""

    async def released(self) -> None:
        """Wait until nobody there holds on to it."""


class ServedModel:
    """One version of one model, loaded, with its pipeline."""

    def __init__(
        self, execution: Execution, pipeline: Pipeline, elsewhere: "Elsewhere | None" = None
    ) -> None:
        self.execution = execution
        self.elsewhere = elsewhere
        self.withdrawn = False
        """Whether it gets no more calls: it is retired, or the server stops."""
        self.priority = execution.settings.default_priority
        self.text = pipeline.text
        self.created = int(time())
        """When it was loaded, in seconds since 1970."""
        self.takes_any = execution.strictness == "off"
        """Whether requests may hold values that other servers' protocols have no place for."""
        self.live = pipeline.live
        self.handler = pipeline.handler
        self.gate = pipeline.gate
        self.meters = pipeline.meters
        self._at_retirement = pipeline.at_retirement

    @property
    def ready(self) -> bool:
        return self.execution.ready

    async def retire(self, grace: float) -> None:
        """Unload once the calls in progress are done, or have had `grace` seconds to be."""
        try:
            async with asyncio.timeout(grace):
                await self.live.emptied()
        except TimeoutError:
            self.live.fail(Draining(f"Model {self.execution.settings.name} is being unloaded."))
        for act in self._at_retirement:
            act()
        if self.elsewhere is not None:
            await self.elsewhere.released()  # its workers, if it has any, run the calls of all front ends
        await self.execution.unload()


class Serving(ABC):
    """What is loaded, and what is known of the rest; who changes it is a subclass's business."""

    def __init__(self, settings: Settings, meters: Meters, tracer: "Tracer | None" = None) -> None:
        self._settings = settings
        self._shared = build_shared(settings, meters, tracer)
        self._served: dict[ModelKey, ServedModel] = {}
        self._defaults: dict[str, ServedModel] = {}
        self.routes: list[tuple[CustomHandler, str]] = []
        """REST routes of models' own and the names of these models, made anew whenever a model comes or goes."""
        self._states: dict[ModelKey, tuple[State, str]] = {}
        self._retiring: dict[asyncio.Task[None], ServedModel] = {}
        self.leaving = False
        """Not ready any more, but still serving: the time a load balancer needs to notice."""
        self.draining = False

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether everything that should serve does."""

    @abstractmethod
    async def index(self, ready: bool) -> list[RepositoryIndexResponseItem]:
        """Every version on disk or in memory; with `ready` only those that serve."""

    @abstractmethod
    async def load(self, name: str) -> None:
        """Load every version of a model on disk. Raises ModelNotFound, ModelLoadFailed."""

    @abstractmethod
    async def unload(self, name: str) -> bool:
        """Retire every version of a model, once its calls in progress are done; False if there is none."""

    def serving(self, name: str, version: str | None = None) -> ServedModel:
        """The model that answers now. Raises Draining, ModelNotFound, ModelNotReady."""
        if self.draining:
            raise Draining
        served = self.get(name, version)
        if not served.ready:
            raise ModelNotReady(name, version)
        return served

    def get(self, name: str, version: str | None = None) -> ServedModel:
        """The model, ready or not. Raises ModelNotFound, and ModelNotReady where loading is under way or failed."""
        served = self._served.get((name, version)) if version else self._defaults.get(name)
        if served is None:
            states = {
                state
                for (known, its), (state, _) in self._states.items()
                if known == name and version in (None, "", its)
            }
            if not states:
                raise ModelNotFound(name, version)
            raise ModelNotReady(name, version, failed=states == {State.UNAVAILABLE})
        return served

    @property
    def unserved(self) -> dict[ModelKey, tuple[State, str]]:
        """What is known of models that load or did not load, and why."""
        return self._states

    def default(self, name: str) -> ServedModel | None:
        """The version of a model that answers calls without a version."""
        return self._defaults.get(name)

    def items(self) -> list[tuple[ModelKey, ServedModel]]:
        """Every model that is loaded, by name and version."""
        return sorted(self._served.items(), key=lambda item: (item[0][0], item[0][1] or ""))

    def names(self) -> list[ModelKey]:
        return sorted(self._served, key=lambda key: (key[0], key[1] or ""))

    def summary(self) -> list[tuple[str, str, str, str]]:
        """Name, version, what it answers and state of every model, for people."""
        rows = [
            (
                name,
                version or "",
                str(served.execution.capabilities),
                "ready" if served.ready else "not ready",
            )
            for (name, version), served in self._served.items()
        ]
        rows += [
            (name, version or "", "", f"{state.value}: {why}")
            for (name, version), (state, why) in self._states.items()
        ]
        return sorted(rows)

    async def _around(self, execution: Execution) -> Pipeline:
        """A model with its stages; where that fails, the model is unloaded again. Raises ModelLoadFailed."""
        try:
            return build_pipeline(execution, self._shared)
        except BaseException:
            await execution.unload()
            raise

    def _put(self, key: ModelKey, served: ServedModel) -> None:
        """Let this answer from now on, and retire what did."""
        self._states.pop(key, None)
        old = self._served.get(key)
        self._served[key] = served
        self._choose_default(key[0])
        if old is not None:
            self._retire(old)

    def _retire(self, served: ServedModel) -> asyncio.Task[None]:
        served.withdrawn = True
        task = asyncio.create_task(served.retire(self._settings.shutdown_grace))
        self._retiring[task] = served
        task.add_done_callback(self._retiring.pop)
        return task

    def _choose_default(self, name: str) -> None:
        """Without a version the unversioned model answers, else the highest version.

        Sorted first: with numbers and texts mixed there may be no highest, and the choice must not depend
        on the order of loading.
        """
        versions = [key for key in self._served if key[0] == name]
        if versions:
            self._defaults[name] = self._served[max(sorted(versions, key=str), key=_by_version)]
        else:
            self._defaults.pop(name, None)
        self.routes = [
            (route, model) for model, served in self._defaults.items() for route in served.execution.routes
        ]

    async def stop(self, grace: float) -> None:
        """Refuse new calls, let those in progress finish for `grace` seconds, and end the rest."""
        self.draining = True
        for served in self._served.values():
            served.withdrawn = True
        lives = [served.live for served in (*self._served.values(), *self._retiring.values())]
        try:
            async with asyncio.timeout(grace):
                await asyncio.gather(*(live.emptied() for live in lives))
        except TimeoutError:
            for live in lives:
                live.fail(Draining())

    async def unload_all(self, limit: float) -> None:
        """Run every model's `unload`, for at most `limit` seconds in all."""
        try:
            async with asyncio.timeout(limit):
                unloading = (served.execution.unload() for served in self._served.values())
                await asyncio.gather(*unloading, *self._retiring)
        except TimeoutError:
            logger.error("models were still unloading after %g s", limit)


def _compared(one: ModelKey, other: ModelKey) -> int:
    """Above 0 if `one` is the newer version: unversioned above all, two numbers as numbers, else as texts."""
    first, second = one[1], other[1]
    if not first or not second:
        return (not first) - (not second)
    try:
        return int(first) - int(second)
    except ValueError:
        return (first > second) - (first < second)


_by_version = cmp_to_key(_compared)
