"""Loads and unloads the models of the repository. Changes to the same model are serialized."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic

from ..errors import HINT, InferstreamError, InvalidSettings, ModelNotFound, ModelNotReady
from ..processes.errors import OutOfMemory
from ..repository import ModelRepository
from ..repository.changed_models import find_affected_models
from ..repository.remote import find_artefacts
from ..settings import ModelSettings, Settings
from ..telemetry.context import model_context
from ..telemetry.metrics import Meters
from ..types import RepositoryIndexResponseItem, State
from .access import Authority, evicts_var
from .configuration import check_configuration
from .execution.base import Execution
from .first_calls import ON_DEMAND, ModelKey, format_key
from .other_front_ends import OtherFrontEnds
from .peers import Peers
from .serving import ServedModel, Serving

logger = logging.getLogger("inferstream.dataplane")

STILL_SERVING = "the old version goes on serving"
"""Part of the error message of a failed load while the previous version keeps serving."""

LONG = 1.0
"""Load time in seconds above which the terminal shows a line. Records of faster loads are `brief`."""

LoadModel = Callable[[ModelSettings], Awaitable[Execution]]
"""Loads a model in the process that its settings select. Raises ModelLoadFailed."""


class Registry(Serving):
    """All models that are loaded, are loading, or failed to load."""

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
        """`forget` discards measurements from earlier loads of a model."""
        super().__init__(settings, access, meters, peers)
        self._repository = repository
        self._load = load
        self._others = others
        self._forget_loads = forget
        self._changing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._wanted: set[ModelKey] = set()
        """Versions that were found at startup and should be ready."""
        self._sources: dict[ModelKey, str] = {}
        """The settings file of each version."""
        self._artefacts = find_artefacts(settings)
        self._fetched: dict[ModelKey, tuple[ModelSettings, ModelSettings]] = {}
        """Settings of versions with remote artefacts: the original ones, and the ones with the local path."""
        self._outdated: dict[ModelKey, str] = {}
        """The reason why a loaded version differs from the repository."""
        self.loading: dict[ModelKey, float] = {}
        """Start times of current loads, on the monotonic clock. Other threads may copy this."""
        self.started = False

    @property
    def wanted(self) -> int:
        """Number of versions that were found at startup."""
        return len(self._wanted)

    @property
    def ready(self) -> bool:
        """Whether startup is complete and the models are ready, as the settings for readiness define it."""
        return (
            self.started
            and not self.leaving
            and not self.draining
            and self._models_ready()
            and (self._others is None or self._others.ready)
        )

    def _models_ready(self) -> bool:
        """Whether every model that was found at startup is ready, or one if the setting is not strict.

        Later failed loads do not count. Models whose worker processes have died do not count either, unless
        all models are affected. A request that crashes the worker of one model must not take the other models
        out of rotation.
        """
        served = self._served.values()
        waiting = [state is State.READY for state, _ in self._states.values()]
        if not served and not waiting:
            return self._settings.empty_registry_readiness
        if not self._settings.strict_readiness:
            return any(each.ready for each in served) or any(waiting)
        return (
            all(self._states[key][0] is State.READY for key in self._wanted & self._states.keys())
            and all(each.ready or each.execution.is_restarting for each in served)
            and (not served or any(each.ready for each in served))
        )

    async def names_at(self, paths: Sequence[Path]) -> list[str]:
        """Return the names of models that are affected by changes to these absolute paths."""
        paths = [path for path in paths if self._repository.concerns(path)]
        if not paths:
            return []
        sources = {(name, source) for (name, _), source in self._sources.items()}
        sources |= {(settings.name, settings.source or "") for settings in await self._repository.list()}
        sources |= {(model.name, model.source) for model in await self._repository.broken()}
        return find_affected_models(paths, sources)

    async def fetch_newer(self) -> list[str]:
        """Fetch newer remote versions, and return the names of their models."""
        names = {*await self.names_at(await self._repository.check_origin())}
        for key, (settings, local) in [*self._fetched.items()]:
            if key in self._served and await self._artefacts.has_newer(settings, local):
                names.add(key[0])
        return sorted(names)

    async def start(self) -> None:
        """Load all models in the repository concurrently. In strict mode, raises the first failure."""
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
            at_once = [settings for settings in wanted if not self._defer_load(settings)]
            if at_once:
                names = ", ".join(format_key((settings.name, settings.version)) for settings in at_once)
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
        """Load every version on disk, then retire removed versions. If a load fails, nothing is retired.

        `logged` contains reasons that are not logged again. All models of an app may fail for the same
        reason.
        """
        async with self._changing[name]:
            if self._forget_loads is not None:
                self._forget_loads(name)
            try:
                await self._load_found(name, await self._find(name, logged))
            finally:
                self._choose_default(name)
                await self._sync_states()

    async def _find(self, name: str, logged: set[str] | None) -> list[ModelSettings]:
        try:
            return await self._repository.find(name)
        except InferstreamError as error:
            known = self._find_keys(name)
            if isinstance(error, ModelNotFound) and known:
                error.message = f"Model {name} is no longer in the repository."
                level = logging.ERROR if self._mark_stale(error, known) else logging.INFO
                logger.log(level, "%s", error.message)
                self._forget([key for key in known if key not in self._served])
            elif not isinstance(error, ModelNotFound):
                self._mark_stale(error, known)
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

    def _find_keys(self, name: str) -> list[ModelKey]:
        return [key for key in {**self._served, **self._states} if key[0] == name]

    def _mark_stale(self, error: InferstreamError, keys: list[ModelKey]) -> bool:
        """Record and extend the error for versions that keep serving. Returns whether there are any."""
        serving = [key for key in keys if key in self._served]
        if serving:
            cause, hint, step = error.message.partition(HINT)
            error.message = f"{cause.rstrip('.')}; {STILL_SERVING}{hint or '.'}{step}"
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
        gone = [key for key in self._find_keys(name) if key not in found_keys]
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
            if not self._mark_stale(failure, [key, *gone]):
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
                    logger.info("no longer in the repository; unloading")
        for name, _ in gone[:1]:
            self._choose_default(name)
        for served in retired:
            served.meters.load_seconds = None
            self._retire(served)
        await self._withdraw(retired)

    async def unload(self, name: str) -> bool:
        """Retire every version of a model once its calls have finished. Returns False if there are none."""
        async with self._changing[name]:
            keys = self._find_keys(name)
            retired = [self._served.pop(key) for key in keys if key in self._served]
            self._forget(keys)
            self._choose_default(name)
            for served in retired:
                served.meters.load_seconds = None
            retiring = [self._retire(served) for served in retired]
            await self._withdraw(retired)
            if retiring:
                await asyncio.wait(retiring)  # Retiring continues if the caller is cancelled.
            await self._sync_states()
            return bool(keys)

    def _defer_load(self, settings: ModelSettings) -> bool:
        """Whether a model loads with its first call. If so, record it as on demand."""
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
                return  # Another task has loaded or unloaded it.
            try:
                await self._load_version(await self._repository.version(*key))
            except OutOfMemory:
                self._states[key] = ON_DEMAND
                raise
            except ModelNotFound:
                self._forget([key])  # Its calls now get another version or ModelNotFound.
            except InferstreamError as error:
                if self._states[key] == ON_DEMAND:  # It has no settings to load.
                    self._states[key] = (State.UNAVAILABLE, error.message)
                    logger.error("%s", error.message)
                raise ModelNotReady(*key, failed=True) from None
            finally:
                self._choose_default(key[0])  # Another version may be the default.

    async def _sync_states(self) -> None:
        if self._others is not None:
            await self._others.sync_states()

    async def _load_version(self, settings: ModelSettings, gone: Sequence[ModelKey] = ()) -> None:
        """Load one version while its predecessor serves, and then replace the predecessor.

        If the load fails, the predecessor and the versions in `gone` keep serving.
        """
        key = (settings.name, settings.version)
        self._sources[key] = settings.source or ""
        new = key not in self._served
        if new:
            self._states[key] = (State.LOADING, "loading")
        began = self.loading[key] = monotonic()
        local = settings
        try:
            local = await self._artefacts.local(settings, stale=new)
            # A copy, because runtimes modify their settings and the repository keeps the original.
            served = await self._load_everywhere(local, local.model_copy(deep=True))
        except BaseException as error:
            reason = "loading was cancelled"
            if isinstance(error, InferstreamError):
                error.message = self._artefacts.explain(error.message, local)
                self._mark_stale(error, [key, *gone])
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
            logger.info("loaded model %s in %.1f s", format_key(key), served.load_seconds, extra=brief)
        self._outdated.pop(key, None)
        if local is not settings:
            self._fetched[key] = (settings, local)
        self._put(key, served)
        if served.elsewhere is not None:
            await served.elsewhere.serve()

    async def _load_everywhere(self, settings: ModelSettings, own: ModelSettings) -> ServedModel:
        """Load a version here and in every other front end. If one fails, unload it everywhere."""
        execution = await self._load(own)
        pipeline = await self._build_pipeline(execution)
        if self._others is None:
            return ServedModel(execution, pipeline)
        try:
            return ServedModel(execution, pipeline, await self._others.add(settings, execution))
        except BaseException:  # Including cancellation.
            self.edges.remove(execution)
            await execution.unload()
            raise

    async def _withdraw(self, retired: list[ServedModel]) -> None:
        await asyncio.gather(*(served.elsewhere.withdraw() for served in retired if served.elsewhere))

    async def index(self, ready: bool) -> list[RepositoryIndexResponseItem]:
        """Return every version on disk or in memory, or only the versions that serve if `ready`."""
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
