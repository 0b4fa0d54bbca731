"""The models that are loaded, by name and version; swaps and drains them without losing a call."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from ..errors import Draining, InferstreamError, InvalidSettings, ModelNotFound, ModelNotReady
from ..handlers import CustomHandler
from ..repository import ModelRepository
from ..settings import ModelSettings, Settings
from ..telemetry.metrics import Meters
from ..types import RepositoryIndexResponseItem, State
from .execution.base import Execution
from .pipeline import Pipeline
from .stages.store import Store

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracing as Tracer

logger = logging.getLogger("inferstream.dataplane")

Key = tuple[str, str | None]

LoadModel = Callable[[ModelSettings], Awaitable[Execution]]
"""Loads a model where its settings say that it should run. Raises ModelLoadFailed."""


class Served:
    """One version of one model, loaded, with its pipeline."""

    def __init__(self, execution: Execution, pipeline: Pipeline) -> None:
        self.execution = execution
        self.priority = execution.settings.default_priority
        self.live = pipeline.live
        self.handler = pipeline.handler
        self.gate = pipeline.gate
        self._cache = pipeline.cache

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
        if self._cache is not None:
            self._cache.clear()
        await self.execution.unload()


class Registry:
    """What is loaded, what failed to, and what is on its way; one change of a model at a time."""

    def __init__(
        self,
        settings: Settings,
        repository: ModelRepository,
        load: LoadModel,
        meters: Meters,
        tracer: "Tracer | None" = None,
    ) -> None:
        self._settings = settings
        self._repository = repository
        self._load = load
        self._meters = meters
        self._store = _store(settings, meters) if settings.cache_enabled else None
        self._tracer = tracer
        self._served: dict[Key, Served] = {}
        self._defaults: dict[str, Served] = {}
        self.routes: list[tuple[CustomHandler, Execution]] = []
        """REST routes of models' own, made anew whenever a model comes or goes."""
        self._states: dict[Key, tuple[State, str]] = {}
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._retiring: set[asyncio.Task[None]] = set()
        self._wanted: set[Key] = set()
        """What start-up found, and what therefore should serve."""
        self.started = False
        self.leaving = False
        """Not ready any more, but still serving: the time a load balancer needs to notice."""
        self.draining = False

    def serving(self, name: str, version: str | None = None) -> Served:
        """The model that answers now. Raises Draining, ModelNotFound, ModelNotReady."""
        if self.draining:
            raise Draining
        served = self.get(name, version)
        if not served.ready:
            raise ModelNotReady(name, version)
        return served

    def get(self, name: str, version: str | None = None) -> Served:
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
    def ready(self) -> bool:
        """Whether start-up is over, everything found at start is loaded, and every model is ready.

        A model that somebody tries to load later, and that fails, takes nobody else out of service.
        """
        return (
            self.started
            and not self.leaving
            and not self.draining
            and self._wanted.isdisjoint(self._states)
            and all(served.ready for served in self._served.values())
        )

    def names(self) -> list[Key]:
        return sorted(self._served, key=lambda key: (key[0], key[1] or ""))

    def summary(self) -> list[tuple[str, str, str, str]]:
        """Name, version, what it answers and state of every model, for people."""
        rows = [
            (name, version or "", served.execution.answers, "ready" if served.ready else "not ready")
            for (name, version), served in self._served.items()
        ]
        rows += [
            (name, version or "", "", f"{state.value}: {why}")
            for (name, version), (state, why) in self._states.items()
        ]
        return sorted(rows)

    async def names_at(self, paths: Sequence[Path]) -> list[str]:
        """Names of the models on disk whose folders hold any of these absolute paths."""
        names = set()
        for settings in await self._repository.list():
            folder = Path(settings.source).resolve().parent if settings.source else None
            if folder is not None and any(path.is_relative_to(folder) for path in paths):
                names.add(settings.name)
        return sorted(names)

    async def start(self) -> None:
        """Load everything the repository holds, all at once; a model that fails leaves the others alone.

        Raises the first failure when the settings are strict.
        """
        if self._settings.load_models_at_startup:
            found = await self._repository.list()
            broken = await self._repository.broken()
            self._wanted = {(settings.name, settings.version) for settings in found}
            self._wanted |= {(model.name, None) for model in broken}
            for model in broken:
                self._states[model.name, None] = (State.UNAVAILABLE, model.reason)
                logger.error("model %s cannot be loaded: %s", model.name, model.reason)
            if broken and self._settings.strict:
                raise InvalidSettings(f"Model {broken[0].name} cannot be loaded: {broken[0].reason}")
            results = await asyncio.gather(*map(self._load_version, found), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    if self._settings.strict or not isinstance(result, InferstreamError):
                        raise result
                    logger.error("%s", result)
        self.started = True

    async def load(self, name: str) -> None:
        """Load every version of a model on disk, then retire those that are no longer there."""
        async with self._changing[name]:
            found = await self._repository.find(name)
            for settings in found:
                await self._load_version(settings)
            kept = {(settings.name, settings.version) for settings in found}
            for key in [key for key in self._served if key[0] == name and key not in kept]:
                self._retire(self._served.pop(key))
            self._choose_default(name)
            for key in [key for key in self._states if key[0] == name and key not in kept]:
                del self._states[key]

    async def unload(self, name: str) -> bool:
        """Retire every version of a model, once its calls in progress are done; False if there is none."""
        async with self._changing[name]:
            keys = [key for key in {**self._served, **self._states} if key[0] == name]
            retired = [self._served.pop(key) for key in keys if key in self._served]
            for key in keys:
                self._states.pop(key, None)
                self._wanted.discard(key)
            self._choose_default(name)
            if retiring := [self._retire(served) for served in retired]:
                await asyncio.wait(retiring)  # they go on when whoever asked for this has left
            return bool(keys)

    async def _load_version(self, settings: ModelSettings) -> None:
        """Load one version beside the one that serves, and take its place only when it is ready."""
        key = (settings.name, settings.version)
        if key not in self._served:
            self._states[key] = (State.LOADING, "loading")
        try:
            # A copy, because runtimes change their settings and the repository remembers these.
            own = settings.model_copy(deep=True)
            execution = await self._load(own)
            timeout = self._settings.request_timeout
            pipeline = Pipeline(execution, self._meters.of(*key), timeout, self._store, self._tracer)
        except InferstreamError as error:
            if key not in self._served:
                self._states[key] = (State.UNAVAILABLE, error.message)
            raise
        except asyncio.CancelledError:
            if key not in self._served:
                self._states[key] = (State.UNAVAILABLE, "loading was cancelled")
            raise
        self._states.pop(key, None)
        old = self._served.get(key)
        self._served[key] = Served(execution, pipeline)
        self._choose_default(settings.name)
        if old is not None:
            self._retire(old)

    def _retire(self, served: Served) -> asyncio.Task[None]:
        task = asyncio.create_task(served.retire(self._settings.shutdown_grace))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        return task

    def _choose_default(self, name: str) -> None:
        """Without a version the unversioned model answers, else the highest version."""
        versions = [key for key in self._served if key[0] == name]
        if versions:
            self._defaults[name] = self._served[max(versions, key=lambda key: _rank(key[1]))]
        else:
            self._defaults.pop(name, None)
        self.routes = [
            (route, served.execution)
            for served in self._defaults.values()
            for route in served.execution.routes
        ]

    async def index(self, ready: bool) -> list[RepositoryIndexResponseItem]:
        """Every version on disk or in memory; with `ready` only those that serve."""
        found: dict[Key, tuple[State, str]] = {}
        for settings in await self._repository.list():
            found[settings.name, settings.version] = (State.UNAVAILABLE, "not loaded")
        for model in await self._repository.broken():
            found[model.name, None] = (State.UNAVAILABLE, model.reason)
        found.update(self._states)
        for key, served in self._served.items():
            found[key] = (State.READY, "") if served.ready else (State.UNAVAILABLE, "the model is not ready")
        return [
            RepositoryIndexResponseItem(name=name, version=version or "", state=state, reason=reason)
            for (name, version), (state, reason) in sorted(
                found.items(), key=lambda item: (item[0][0], item[0][1] or "")
            )
            if not ready or state is State.READY
        ]

    async def stop(self, grace: float) -> None:
        """Refuse new calls, let those in progress finish for `grace` seconds, end the rest, unload everything."""
        self.draining = True
        lives = [served.live for served in self._served.values()]
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
                await asyncio.gather(*(served.execution.unload() for served in self._served.values()))
        except TimeoutError:
            logger.error("models were still unloading after %g s", limit)


def _store(settings: Settings, meters: Meters) -> Store:
    """What the response cache of all models holds."""
    seconds = inf if settings.cache_ttl is None else settings.cache_ttl
    return Store(settings.cache_size, settings.cache_max_bytes, seconds, monotonic, meters.caching())


def _rank(version: str | None) -> tuple[int, int, str]:
    """Unversioned above numbers above text; numbers as numbers, text as text."""
    if not version:
        return (2, 0, "")
    return (1, int(version), "") if version.isdecimal() else (0, 0, version)
