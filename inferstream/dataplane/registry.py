"""Loads and unloads the models of the repository; one change of a model at a time."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic

from ..errors import InferstreamError, InvalidSettings, ModelNotFound, ModelNotReady
from ..processes.errors import OutOfMemory
from ..repository import ModelRepository
from ..repository.remote import artefacts_of
from ..repository.touched import touched_by
from ..settings import ModelSettings, Settings
from ..telemetry.context import model_context
from ..telemetry.metrics import Meters
from ..types import RepositoryIndexResponseItem, State
from .access import Authority, evicts_var
from .configuration import check_configuration
from .elsewhere import OtherFrontEnds
from .execution.base import Execution
from .first_calls import ON_DEMAND, ModelKey, label_of
from .peers import Peers
from .serving import ServedModel, Serving

logger = logging.getLogger("inferstream.dataplane")

STILL_SERVING = "the old version goes on serving"
"""Part of the message of a failed load that changed nothing for clients."""

LONG = 1.0
"""Seconds of a load that a terminal shows in a line of its own. Records of others are `brief`."""

LoadModel = Callable[[ModelSettings], Awaitable[Execution]]
"""Loads a model where its settings place it. Raises ModelLoadFailed."""


class Registry(Serving):
    """The models that are loaded, have failed or are loading."""

    def __init__(
        self,
        settings: Settings,
        access: Authority,
        repository: ModelRepository,
        load: LoadModel,
        meters: Meters,
        peers: Peers | None = None,
        others: OtherFrontEnds | None = None,
        forget: Callable[[str], None] | None = None,
    ) -> None:
        """`forget` drops what earlier loads of a model have told."""
        super().__init__(settings, access, meters, peers)
        self._repository = repository
        self._load = load
        self._others = others
        self._forget_loads = forget
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._wanted: set[ModelKey] = set()
        """Versions found at start-up, which should serve."""
        self._sources: dict[ModelKey, str] = {}
        """The settings file of each version."""
        self._artefacts = artefacts_of(settings)
        self._fetched: dict[ModelKey, tuple[ModelSettings, ModelSettings]] = {}
        """The settings of versions with artefacts elsewhere: as they are, and with the path of what was fetched."""
        self._outdated: dict[ModelKey, str] = {}
        """Why a serving version differs from the repository."""
        self.loading: dict[ModelKey, float] = {}
        """When each version that is loading began to, on the monotonic clock. Other threads may copy it."""
        self.started = False

    @property
    def wanted(self) -> int:
        """How many versions the start has found."""
        return len(self._wanted)

    @property
    def ready(self) -> bool:
        """Whether start-up is over and every model found at start is ready. Later failed loads do not count.

        A model whose worker processes have ended does not count either, unless no model is left: a request that ends
        one model's worker must not take the other models out of rotation.
        """
        served = self._served.values()
        return (
            self.started
            and not self.leaving
            and not self.draining
            and all(self._states[key][0] is State.READY for key in self._wanted & self._states.keys())
            and all(each.ready or each.execution.is_restarting for each in served)
            and (not served or any(each.ready for each in served))
            and (self._others is None or self._others.ready)
        )

    async def names_at(self, paths: Sequence[Path]) -> list[str]:
        """Names of models that a change of these absolute paths touches."""
        paths = [path for path in paths if self._repository.concerns(path)]
        if not paths:
            return []
        sources = {(name, source) for (name, _), source in self._sources.items()}
        sources |= {(settings.name, settings.source or "") for settings in await self._repository.list()}
        sources |= {(model.name, model.source) for model in await self._repository.broken()}
        return touched_by(paths, sources)

    async def renewed(self) -> list[str]:
        """Names of models of which there are new versions elsewhere, after these were fetched."""
        names = {*await self.names_at(await self._repository.renewed())}
        for key, (settings, local) in [*self._fetched.items()]:
            if key in self._served and await self._artefacts.renewed(settings, local):
                names.add(key[0])
        return sorted(names)

    async def start(self) -> None:
        """Load all models of the repository at once. Raises the first failure if the settings are strict."""
        if self._settings.load_models_at_startup:
            wanted = await self._repository.list()
            broken = await self._repository.broken()
            self._wanted = {(settings.name, settings.version) for settings in wanted}
            for model in broken:
                key = (model.name, model.version)
                self._wanted.add(key)
                self._states[key] = (State.UNAVAILABLE, model.reason)
                self._sources[key] = model.source
                logger.error("model %s cannot be loaded: %s", model.name, model.reason)
            if broken and self._settings.strict:
                raise InvalidSettings(f"Model {broken[0].name} cannot be loaded: {broken[0].reason}")
            check_configuration(wanted, self._wanted, self._settings.strict)
            at_once = [settings for settings in wanted if not self._waits(settings)]
            if at_once:
                names = ", ".join(label_of((settings.name, settings.version)) for settings in at_once)
                logger.info("loading %s", names, extra={"brief": True})
            for settings in at_once:
                self._states[settings.name, settings.version] = (State.LOADING, "loading")
            self.listing = False
            results = await asyncio.gather(*map(self._load_version, at_once), return_exceptions=True)
            for result in results:
                strange = not isinstance(result, InferstreamError)
                if isinstance(result, BaseException) and (strange or self._settings.strict):
                    raise result
        self.started = True

    async def load(self, name: str, logged: set[str] | None = None) -> None:
        """Load every version on disk, then retire versions that are gone. If one fails, nothing is retired.

        `logged` holds reasons of failures that the log has, as of an app that fails for each of its models.
        """
        async with self._changing[name]:
            if self._forget_loads is not None:
                self._forget_loads(name)
            try:
                await self._load_found(name, await self._find(name, logged))
            finally:
                self._choose_default(name)
                await self._agree()

    async def _find(self, name: str, logged: set[str] | None) -> list[ModelSettings]:
        try:
            return await self._repository.find(name)
        except InferstreamError as error:
            known = self._known(name)
            if isinstance(error, ModelNotFound) and known:
                error.message = f"Model {name} is no longer in the repository."
                level = logging.ERROR if self._outdated_by(error, known) else logging.INFO
                logger.log(level, "%s", error.message)
                self._forget([key for key in known if key not in self._served])
            elif not isinstance(error, ModelNotFound):
                self._outdated_by(error, known)
                for key in known:
                    if key not in self._served:
                        self._states[key] = (State.UNAVAILABLE, error.message)
                broken = await self._repository.broken()
                reason = next((model.reason for model in broken if model.name == name), error.message)
                if logged is None or reason not in logged:
                    logger.error("%s", error.message)
                if logged is not None:
                    logged.add(reason)
            raise

    def _known(self, name: str) -> list[ModelKey]:
        return [key for key in {**self._served, **self._states} if key[0] == name]

    def _outdated_by(self, error: InferstreamError, keys: list[ModelKey]) -> bool:
        """Whether any of these versions still serves after a failure. Notes it, and adds it to the error."""
        serving = [key for key in keys if key in self._served]
        if serving:
            error.message = f"{error.message.rstrip('.')}; {STILL_SERVING}."
            self._outdated.update(dict.fromkeys(serving, error.message))
        return bool(serving)

    def _forget(self, keys: list[ModelKey]) -> None:
        for key in keys:
            self._states.pop(key, None)
            self._sources.pop(key, None)
            self._outdated.pop(key, None)
            self._fetched.pop(key, None)
            self._wanted.discard(key)

    async def _load_found(self, name: str, wanted: list[ModelSettings]) -> None:
        broken = [model for model in await self._repository.broken() if model.name == name]
        found_keys = {(settings.name, settings.version) for settings in wanted}
        gone = [key for key in self._known(name) if key not in found_keys]
        known = found_keys | {(name, model.version) for model in broken}
        check_configuration(wanted, known, strict=False)
        failures: list[InferstreamError] = []
        for settings in wanted:
            try:
                await self._load_version(settings, gone)
            except InferstreamError as error:
                failures.append(error)
        for model in broken:
            failure = InvalidSettings(f"Model {name} cannot be loaded: {model.reason}")
            key = (name, model.version)
            if not self._outdated_by(failure, [key, *gone]):
                self._states[key] = (State.UNAVAILABLE, failure.message)
            self._sources[key] = model.source
            logger.error("%s", failure.message)
            failures.append(failure)
        if failures:
            raise failures[0]
        await self._take_out(gone)

    async def _take_out(self, gone: list[ModelKey]) -> None:
        retired = []
        for key in gone:
            self._forget([key])
            if key in self._served:
                retired.append(self._served.pop(key))
                with model_context(*key):
                    logger.info("no longer in the repository; it is unloaded")
        for name, _ in gone[:1]:
            self._choose_default(name)
        for served in retired:
            served.meters.load_seconds = None
            self._retire(served)
        await self._withdraw(retired)

    async def unload(self, name: str) -> bool:
        """Retire every version of a model after its calls in progress; False without any."""
        async with self._changing[name]:
            keys = self._known(name)
            retired = [self._served.pop(key) for key in keys if key in self._served]
            self._forget(keys)
            self._choose_default(name)
            for served in retired:
                served.meters.load_seconds = None
            retiring = [self._retire(served) for served in retired]
            await self._withdraw(retired)
            if retiring:
                await asyncio.wait(retiring)  # retiring continues if the caller leaves
            await self._agree()
            return bool(keys)

    def _waits(self, settings: ModelSettings) -> bool:
        """Whether a model loads with its first call, of which this takes a note."""
        if settings.load == "start" or self._others is not None:
            return False
        key = (settings.name, settings.version)
        self._sources[key], self._states[key] = settings.source or "", ON_DEMAND
        self.first_calls.bounds[key] = settings.max_queue
        return True

    async def _load_first(self, key: ModelKey) -> None:
        if not self._access.calls_evict:
            evicts_var.set(False)
        async with self._changing[key[0]]:
            if key not in self._states:
                return  # it has been loaded, or unloaded, meanwhile
            try:
                await self._load_version(await self._repository.version(*key))
            except OutOfMemory:
                self._states[key] = ON_DEMAND
                raise
            except ModelNotFound:
                self._forget([key])  # then its calls get another version, or learn that there is none
            except InferstreamError as error:
                if self._states[key] == ON_DEMAND:  # it has no settings to load
                    self._states[key] = (State.UNAVAILABLE, error.message)
                    logger.error("%s", error.message)
                raise ModelNotReady(*key, failed=True) from None
            finally:
                self._choose_default(key[0])  # another version may serve

    async def _agree(self) -> None:
        if self._others is not None:
            await self._others.agree()

    async def _load_version(self, settings: ModelSettings, gone: Sequence[ModelKey] = ()) -> None:
        """Load one version beside the one that serves, and replace that, and versions in `gone`, when ready."""
        key = (settings.name, settings.version)
        self._sources[key] = settings.source or ""
        new = key not in self._served
        if new:
            self._states[key] = (State.LOADING, "loading")
        began = self.loading[key] = monotonic()
        local = settings
        try:
            local = await self._artefacts.local(settings, stale=new)
            # A copy, because runtimes change their settings and the repository keeps these.
            served = await self._loaded(local, local.model_copy(deep=True))
        except BaseException as error:
            reason = "loading was cancelled"
            if isinstance(error, InferstreamError):
                error.message = self._artefacts.explained(error.message, local)
                self._outdated_by(error, [key, *gone])
                reason = error.message
                with model_context(*key):
                    logger.error("%s", reason, exc_info=error.__cause__)
            if key not in self._served:
                self._states[key] = (State.UNAVAILABLE, reason)
            raise
        finally:
            del self.loading[key]
        served.load_seconds = served.meters.load_seconds = monotonic() - began
        if new:
            brief = {"brief": served.load_seconds < LONG}
            logger.info("loaded model %s in %.1f s", label_of(key), served.load_seconds, extra=brief)
        self._outdated.pop(key, None)
        if local is not settings:
            self._fetched[key] = (settings, local)
        self._put(key, served)
        if served.elsewhere is not None:
            await served.elsewhere.serve()

    async def _loaded(self, settings: ModelSettings, own: ModelSettings) -> ServedModel:
        """Load a version here and in every other front end. If one fails, all unload it."""
        execution = await self._load(own)
        pipeline = await self._around(execution)
        if self._others is None:
            return ServedModel(execution, pipeline)
        try:
            return ServedModel(execution, pipeline, await self._others.add(settings, execution))
        except BaseException:  # a cancelled load too
            self.edges.remove(execution)
            await execution.unload()
            raise

    async def _withdraw(self, retired: list[ServedModel]) -> None:
        await asyncio.gather(*(served.elsewhere.withdraw() for served in retired if served.elsewhere))

    async def index(self, ready: bool) -> list[RepositoryIndexResponseItem]:
        """Every version on disk or in memory; with `ready` only those that serve."""
        states: dict[ModelKey, tuple[State, str]] = {}
        for settings in await self._repository.list():
            states[settings.name, settings.version] = (State.UNAVAILABLE, "not loaded")
        for model in await self._repository.broken():
            states[model.name, model.version] = (State.UNAVAILABLE, model.reason)
        states.update(self._states)
        for key, served in self._served.items():
            resident = served.execution.resident
            ready_now = (State.READY, self._outdated.get(key, "" if resident is None else resident.state))
            states[key] = ready_now if served.ready else (State.UNAVAILABLE, "the model is not ready")
        return [
            RepositoryIndexResponseItem(name=name, version=version or "", state=state, reason=reason)
            for (name, version), (state, reason) in sorted(
                states.items(), key=lambda item: (item[0][0], item[0][1] or "")
            )
            if not ready or state is State.READY
        ]
