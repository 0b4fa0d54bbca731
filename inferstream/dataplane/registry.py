"""Loads what the repository holds, and unloads it; one change of a model at a time."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import InferstreamError, InvalidSettings
from ..repository import ModelRepository
from ..settings import ModelSettings, Settings
from ..telemetry.context import model_context
from ..telemetry.metrics import Meters
from ..types import RepositoryIndexResponseItem, State
from .execution.base import Execution
from .serving import Elsewhere, Key, Served, Serving

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracing as Tracer

logger = logging.getLogger("inferstream.dataplane")

LoadModel = Callable[[ModelSettings], Awaitable[Execution]]
"""Loads a model where its settings say that it should run. Raises ModelLoadFailed."""


class OtherFrontEnds(Protocol):
    """Whoever else has to serve what is served here."""

    @property
    def ready(self) -> bool:
        """Whether each has come up."""

    async def add(self, settings: ModelSettings, execution: Execution) -> Elsewhere:
        """Have a model loaded there, from the settings that `execution` was loaded from. Raises ModelLoadFailed."""

    async def agree(self) -> None:
        """Wait until each knows what is known here of models that are not served."""


class Registry(Serving):
    """What is loaded, what failed to, and what is on its way."""

    def __init__(
        self,
        settings: Settings,
        repository: ModelRepository,
        load: LoadModel,
        meters: Meters,
        tracer: "Tracer | None" = None,
        others: OtherFrontEnds | None = None,
    ) -> None:
        super().__init__(settings, meters, tracer)
        self._repository = repository
        self._load = load
        self._others = others
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._wanted: set[Key] = set()
        """What start-up found, and what therefore should serve."""
        self.started = False

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
            and (self._others is None or self._others.ready)
        )

    async def names_at(self, paths: Sequence[Path]) -> list[str]:
        """Names of the models on disk that any of these absolute paths belongs to.

        Code outside every model's folder belongs to all models.
        """
        found = await self._repository.list()
        folders = {Path(settings.source).resolve().parent for settings in found if settings.source}
        touched = {folder for folder in folders if any(path.is_relative_to(folder) for path in paths)}
        everything = any(
            path.suffix == ".py" and not any(map(path.is_relative_to, touched)) for path in paths
        )
        return sorted(
            {
                settings.name
                for settings in found
                if everything or (settings.source and Path(settings.source).resolve().parent in touched)
            }
        )

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
                strange = not isinstance(result, InferstreamError)
                if isinstance(result, BaseException) and (strange or self._settings.strict):
                    raise result
        self.started = True

    async def load(self, name: str) -> None:
        """Load every version of a model on disk, then retire those that are no longer there."""
        async with self._changing[name]:
            try:
                await self._load_found(name, await self._repository.find(name))
            finally:
                await self._agree()

    async def _load_found(self, name: str, found: list[ModelSettings]) -> None:
        for settings in found:
            await self._load_version(settings)
        kept = {(settings.name, settings.version) for settings in found}
        gone = [self._served.pop(key) for key in list(self._served) if key[0] == name and key not in kept]
        for served in gone:
            self._retire(served)
        self._choose_default(name)
        for key in [key for key in self._states if key[0] == name and key not in kept]:
            del self._states[key]
        await self._withdraw(gone)

    async def unload(self, name: str) -> bool:
        """Retire every version of a model, once its calls in progress are done; False if there is none."""
        async with self._changing[name]:
            keys = [key for key in {**self._served, **self._states} if key[0] == name]
            retired = [self._served.pop(key) for key in keys if key in self._served]
            for key in keys:
                self._states.pop(key, None)
                self._wanted.discard(key)
            self._choose_default(name)
            retiring = [self._retire(served) for served in retired]
            await self._withdraw(retired)
            if retiring:
                await asyncio.wait(retiring)  # they go on when whoever asked for this has left
            await self._agree()
            return bool(keys)

    async def _agree(self) -> None:
        if self._others is not None:
            await self._others.agree()

    async def _load_version(self, settings: ModelSettings) -> None:
        """Load one version beside the one that serves, and take its place only when it is ready."""
        key = (settings.name, settings.version)
        if key not in self._served:
            self._states[key] = (State.LOADING, "loading")
        try:
            # A copy, because runtimes change their settings and the repository remembers these.
            served = await self._loaded(key, settings, settings.model_copy(deep=True))
        except InferstreamError as error:
            with model_context(*key):
                logger.error("%s", error.message, exc_info=error.__cause__)
            if key not in self._served:
                self._states[key] = (State.UNAVAILABLE, error.message)
            raise
        except asyncio.CancelledError:
            if key not in self._served:
                self._states[key] = (State.UNAVAILABLE, "loading was cancelled")
            raise
        self._put(key, served)
        if served.elsewhere is not None:
            await served.elsewhere.serve()

    async def _loaded(self, key: Key, settings: ModelSettings, own: ModelSettings) -> Served:
        """A version that can take over, here and in every other front end; where one fails, all let go of it."""
        execution = await self._load(own)
        pipeline = self._around(key, execution)
        if self._others is None:
            return Served(execution, pipeline)
        try:
            return Served(execution, pipeline, await self._others.add(settings, execution))
        except BaseException:
            await execution.unload()
            raise

    async def _withdraw(self, retired: list[Served]) -> None:
        """Let no front end give these another call."""
        await asyncio.gather(*(served.elsewhere.withdraw() for served in retired if served.elsewhere))

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
