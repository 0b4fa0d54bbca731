"""The models that this front end serves, by name and version. Changes lose no call."""

import asyncio
import logging
from abc import ABC, abstractmethod
from time import time

from ..errors import Draining, ModelNotFound, ModelNotReady
from ..extensions import MESSAGES, loaded
from ..handlers import CustomHandler
from ..repository.apps import app_of
from ..settings import Settings
from ..settings.versions import newest
from ..signature import Signature
from ..telemetry.access import AccessLines, Subscribers
from ..telemetry.metrics import Meters
from ..telemetry.stages import BatchMeters
from ..types import RepositoryIndexResponseItem, State
from .access import Authority
from .caller import Caller
from .edges import CallEdges, Callee
from .elsewhere import Elsewhere
from .execution.base import Execution
from .first_calls import FirstCalls, ModelKey, NotLoaded
from .peers import Peers
from .pipeline import build_pipeline, build_shared
from .server_parts import ServerParts
from .stages.access_log import AccessLog
from .stages.base import ChooseVersion, Pipeline
from .stages.live import Live

logger = logging.getLogger("inferstream.dataplane")

MOST_NAMES = 10
"""Names of models in an error."""


class ServedModel:
    def __init__(
        self, execution: Execution, pipeline: Pipeline, elsewhere: "Elsewhere | None" = None
    ) -> None:
        self.execution = execution
        self.pipeline = pipeline
        self.meters = pipeline.meters
        self.elsewhere = elsewhere
        self.withdrawn = False
        """Whether it gets no more calls, because it is retired or the server stops."""
        self.priority = execution.settings.default_priority
        rate = execution.settings.items_per_second
        self.pace = 0.0 if rate is None else 1 / rate
        """Seconds between two responses of a stream, unless its request says otherwise."""
        self.choose = pipeline.choose
        """Chooses the version for calls without one, if this is the version that would get them."""
        self.created = int(time())
        """When it was loaded, in seconds since 1970."""
        batches = BatchMeters in pipeline.meters.stages
        self.capacity = execution.capacity * (execution.settings.max_batch_size if batches else 1)
        """Calls that model code here can run at once, those in batches included."""
        self.load_seconds = 0.0
        """Seconds that its load took, in all processes together."""
        assert pipeline.live is not None
        self.live = pipeline.live
        self.handler = pipeline.handler
        self.refuse = pipeline.refuse

    @property
    def ready(self) -> bool:
        return self.execution.ready

    def record_to(self, lines: AccessLines) -> None:
        """Give the records of its calls to subscribers; only to be called where the log is off."""
        self.handler, self.refuse = self.pipeline.handler, self.pipeline.refuse
        if lines.on:
            self.handler = AccessLog(self.handler, lines)
            self.refuse = None  # refused calls have a record too

    async def retire(self, grace: float) -> None:
        """Unload after the calls in progress, or after `grace` seconds."""
        try:
            async with asyncio.timeout(grace):
                await self.live.emptied()
        except TimeoutError:
            self.live.fail(Draining(f"Model {self.execution.settings.name} is being unloaded."))
        for act in self.pipeline.at_retirement:
            act()
        if self.elsewhere is not None:
            await self.elsewhere.released()  # workers run the calls of all front ends
        await self.execution.unload()


class Serving(ABC):
    """The models that are loaded, and the states of others. A subclass changes them."""

    def __init__(
        self, settings: Settings, access: Authority, meters: Meters, peers: Peers | None = None
    ) -> None:
        self._settings = settings
        self._access = access
        self.edges = CallEdges(self._callee)
        self._shared = build_shared(settings, meters, self, peers, self.edges, access.shares_responses)
        if not self._shared.peers.alone:
            for _, part in loaded(MESSAGES, settings.strict):
                if callable(part):
                    self._shared.of(part)  # others may ask before the first request
        self.lines = self._shared.lines
        """Where the records of the access log go. While nobody wants any, no model has a stage for them."""
        self.lines.changed = self._record_calls
        self.subscribers = Subscribers(self.lines)
        self._served: dict[ModelKey, ServedModel] = {}
        self._defaults: dict[str, ServedModel] = {}
        self.routes: list[tuple[CustomHandler, str]] = []
        """REST routes of models with the models' names. A new list whenever a model is loaded or unloaded."""
        self.faceted: dict[type, list[tuple[ModelKey, ServedModel]]] = {}
        """The models that have a facet of a type, updated with `routes`."""
        self.typed: list[tuple[str, Signature]] = []
        """Models with a typed RPC, by name. A new list whenever a model is loaded or unloaded."""
        self._states: dict[ModelKey, tuple[State, str]] = {}
        self.first_calls = FirstCalls(self._load_first)
        self._retiring: dict[asyncio.Task[None], ServedModel] = {}
        self.leaving = False
        """Not ready, but still serving while a load balancer notices."""
        self.draining = False
        self.listing = False
        """Whether a start has not read yet which models there are: any may be."""

    @property
    def parts(self) -> ServerParts:
        """What the stages and edges of this server have in common."""
        return self._shared

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether every model that should serve does."""

    @abstractmethod
    async def index(self, ready: bool) -> list[RepositoryIndexResponseItem]:
        """Every version on disk or in memory; with `ready` only those that serve."""

    @abstractmethod
    async def load(self, name: str) -> None:
        """Load every version of a model on disk. Raises ModelNotFound, ModelLoadFailed."""

    @abstractmethod
    async def unload(self, name: str) -> bool:
        """Retire every version of a model after its calls in progress; False without any."""

    async def _load_first(self, key: ModelKey) -> None:
        """Load a model for its first calls. Raises ModelNotReady, OutOfMemory."""
        raise ModelNotReady(*key)  # with several front ends, none loads on demand

    def on_demand(self, name: str, version: str | None = None) -> ModelKey | None:
        """The version that would answer such a call, where its first call loads it; None for other models."""
        versions = [
            its
            for its, state in self._stated(name, version)
            if state is State.READY or (name, its) in self.first_calls
        ]
        return (name, newest(versions)) if versions else None

    def _stated(self, name: str, version: str | None) -> list[tuple[str | None, State]]:
        """The versions of a model that do not serve, or the one that is asked for, with their states."""
        return [
            (its, state)
            for (known, its), (state, _) in self._states.items()
            if known == name and version in (None, "", its)
        ]

    def serving(self, name: str, version: str | None = None, caller: Caller | None = None) -> ServedModel:
        """The model, if it is ready; of one with a `split` the version for the caller.

        Raises Draining, ModelNotFound, ModelNotReady, NotLoaded.
        """
        if self.draining:
            raise Draining
        return self._reached(name, version, caller)

    async def _callee(self, name: str) -> Callee:
        """A model for a call by another one, also while the server drains. Raises ModelNotFound, ModelNotReady."""
        while True:
            try:
                served = self._reached(name)
                return Callee(served.execution, served.handler, served.pipeline.app)
            except NotLoaded as unloaded:
                if self.draining:
                    raise Draining from None
                await self.first_calls.wait(unloaded.key)

    def _reached(self, name: str, version: str | None = None, caller: Caller | None = None) -> ServedModel:
        try:
            served = self.get(name, version)
        except ModelNotReady:
            if (key := self.on_demand(name, version)) is None:
                raise
            raise NotLoaded(key) from None
        if served.choose is not None and caller is not None and not version:
            served = self._chosen(served.choose, name, caller) or served
        if not served.ready:
            raise ModelNotReady(name, version)
        return served

    def _chosen(self, choose: ChooseVersion, name: str, caller: Caller) -> ServedModel | None:
        """The version for a caller, of those that are ready; None for the default."""

        def is_ready(version: str) -> bool:
            served = self._served.get((name, version))
            return served is not None and served.ready

        version = choose(is_ready, caller)
        return None if version is None else self._served[name, version]

    def get(self, name: str, version: str | None = None) -> ServedModel:
        """The model, ready or not. Raises ModelNotFound, and ModelNotReady while loading or after a failed load."""
        served = self._served.get((name, version)) if version else self._defaults.get(name)
        if served is None:
            states = {state for _, state in self._stated(name, version)}
            if not states and not self.listing:
                raise ModelNotFound(name, version, self._there_are(name))
            raise ModelNotReady(name, version, failed=states == {State.UNAVAILABLE})
        return served

    def _there_are(self, name: str) -> str:
        """Which models or versions there are. Where nobody is refused, metadata and OpenAI's API list them as well.

        MLServer clients compare the message with MLServer's.
        """
        if self._settings.status_profile == "mlserver" or self._access.restricts:
            return ""
        versions = [version for known, version in self._served if known == name and version]
        if versions:
            return f"it has {_listed('version', sorted(versions, key=lambda its: (len(its), its)))}"
        names = sorted(self._defaults)
        return f"there {'is' if len(names) == 1 else 'are'} {_listed('model', names)}" if names else ""

    @property
    def unserved(self) -> dict[ModelKey, tuple[State, str]]:
        """States and reasons of models that are loading or failed to load."""
        return self._states

    def default(self, name: str) -> ServedModel | None:
        """The version of a model that answers calls without a version."""
        return self._defaults.get(name)

    def items(self) -> list[tuple[ModelKey, ServedModel]]:
        """Every model that is loaded, by name and version."""
        return [*self._served.items()]

    def lives(self) -> list[Live]:
        """The calls in progress of every model, those that are retired included."""
        return [served.live for served in (*self._served.values(), *self._retiring.values())]

    def names(self) -> list[ModelKey]:
        return [*self._served]

    def summary(self) -> list[tuple[str, str, str, str, str]]:
        """Name, version, capabilities, time of the load and state of every model, for people."""
        rows = [
            (
                name,
                version or "",
                str(served.execution.capabilities),
                f"{served.load_seconds:.1f} s",
                "ready" if served.ready else "not ready",
            )
            for (name, version), served in self._served.items()
        ]
        rows += [
            (name, version or "", "", "", f"{state.value}: {why}")
            for (name, version), (state, why) in self._states.items()
        ]
        return sorted(rows)

    async def _around(self, execution: Execution) -> Pipeline:
        """Put the stages around a model. If that fails, unload it. Raises ModelLoadFailed."""
        try:
            app = await app_of(execution.settings)
            return build_pipeline(execution, self._shared, app)
        except BaseException:  # a cancelled load too
            self.edges.remove(execution)
            await execution.unload()
            raise

    def _put(self, key: ModelKey, served: ServedModel) -> None:
        """Serve this version from now on, and retire the version in its place."""
        self._states.pop(key, None)
        if self.lines.on and not self._settings.access_log:
            served.record_to(self.lines)
        old = self._served.get(key)
        self._served[key] = served
        if old is None:  # sorted here, because the load is counted twenty times a second
            self._served = dict(sorted(self._served.items(), key=lambda item: (item[0][0], item[0][1] or "")))
        self._choose_default(key[0])
        if old is not None:
            self._retire(old)

    def _record_calls(self, on: bool) -> None:
        for served in self._served.values():
            served.record_to(self.lines)

    def _retire(self, served: ServedModel) -> asyncio.Task[None]:
        served.withdrawn = True
        task = asyncio.create_task(served.retire(self._settings.shutdown_grace))
        self._retiring[task] = served
        task.add_done_callback(self._retiring.pop)
        return task

    def _choose_default(self, name: str) -> None:
        """Choose the unversioned model, else the highest version, for calls without a version."""
        versions = [version for known, version in self._served if known == name]
        waiting = [its for its, state in self._stated(name, None) if state is State.READY]
        if versions and (key := (name, newest([*versions, *waiting]))) in self._served:
            self._defaults[name] = self._served[key]
        else:
            self._defaults.pop(name, None)
        self.faceted = {}
        for item in self._served.items():
            for kind in item[1].pipeline.facets:
                self.faceted.setdefault(kind, []).append(item)
        self.routes = [
            (route, model) for model, served in self._defaults.items() for route in served.execution.routes
        ]
        self.typed = [
            (model, served.execution.signature)
            for model, served in sorted(self._defaults.items())
            if served.execution.signature.rpc is not None
        ]

    async def stop(self, grace: float) -> None:
        """Refuse new calls, give those in progress `grace` seconds, and end the rest."""
        self.draining = True
        self.first_calls.cancel()
        for served in self._served.values():
            served.withdrawn = True
        for act in self._shared.at_stop:
            act()
        lives = self.lives()
        try:
            async with asyncio.timeout(grace):
                await asyncio.gather(*(live.emptied() for live in lives))
        except TimeoutError:
            for live in lives:
                live.fail(Draining())
        self.subscribers.end()

    async def unload_all(self, limit: float) -> None:
        """Run every model's `unload`, for at most `limit` seconds in all."""
        try:
            async with asyncio.timeout(limit):
                unloading = (served.execution.unload() for served in self._served.values())
                await asyncio.gather(*unloading, *self._retiring)
        except TimeoutError:
            logger.error("models were still unloading after %g s", limit)


def _listed(what: str, names: list[str]) -> str:
    """`model a`, `models a, b`; of many names the first."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names[:MOST_NAMES])}{more}"
