"""The models that this front end serves, by name and version. Replacing a model loses no calls."""

import asyncio
import logging
from abc import ABC, abstractmethod
from time import time

from ..errors import HINT, Draining, ModelNotFound, ModelNotReady
from ..extensions.entries import MESSAGES
from ..extensions.loading import load_group
from ..handlers import CustomHandler
from ..repository.apps import find_app
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
from .execution.base import Execution
from .first_calls import FirstCalls, ModelKey, NotLoaded
from .other_front_ends import ModelInOtherFrontEnds
from .peers import Peers
from .pipeline import build_pipeline, build_shared_objects
from .server_parts import ServerParts
from .stages.access_log import AccessLog
from .stages.base import ChooseVersion, Pipeline
from .stages.live import Live

logger = logging.getLogger("inferstream.dataplane")

MAX_NAMES = 10
"""Maximum number of model names in an error message."""


class ServedModel:
    def __init__(
        self, execution: Execution, pipeline: Pipeline, elsewhere: "ModelInOtherFrontEnds | None" = None
    ) -> None:
        self.execution = execution
        self.pipeline = pipeline
        self.meters = pipeline.meters
        self.elsewhere = elsewhere
        self.withdrawn = False
        """Whether it receives no new calls, because it was retired or the server is stopping."""
        self.priority = execution.settings.default_priority
        rate = execution.settings.items_per_second
        self.pace = 0.0 if rate is None else 1 / rate
        """Default interval between two responses of a stream, in seconds."""
        self.choose = pipeline.choose
        """Selects the version for calls without one, if this is the default version."""
        self.created = int(time())
        """Load time, in seconds since 1970."""
        batches = BatchMeters in pipeline.meters.stages
        self.capacity = execution.capacity * (execution.settings.max_batch_size if batches else 1)
        """Number of calls that this model can run concurrently here, including calls in batches."""
        self.load_seconds = 0.0
        """Total load time in all processes, in seconds."""
        assert pipeline.live is not None
        self.live = pipeline.live
        self.handler = pipeline.handler
        self.refuse = pipeline.refuse

    @property
    def ready(self) -> bool:
        return self.execution.ready

    def record_to(self, lines: AccessLines) -> None:
        """Send access records of this model's calls to subscribers. Only valid if the access log is off."""
        self.handler, self.refuse = self.pipeline.handler, self.pipeline.refuse
        if lines.on:
            self.handler = AccessLog(self.handler, lines)
            self.refuse = None  # Rejected calls need a record as well.

    async def retire(self, grace: float) -> None:
        """Unload the model once its calls have finished, or after `grace` seconds."""
        try:
            async with asyncio.timeout(grace):
                await self.live.wait_until_empty()
        except TimeoutError:
            self.live.fail(Draining(f"Model {self.execution.settings.name} is being unloaded."))
        for act in self.pipeline.at_retirement:
            act()
        if self.elsewhere is not None:
            await self.elsewhere.wait_for_release()  # Workers run the calls of all front ends.
        await self.execution.unload()


class Serving(ABC):
    """The models that are loaded, and the states of all others. Subclasses change them."""

    def __init__(
        self, settings: Settings, access: Authority, meters: Meters, peers: Peers | None = None
    ) -> None:
        self._settings = settings
        self._access = access
        self.edges = CallEdges(self._callee)
        self._shared = build_shared_objects(
            settings, meters, self, peers, self.edges, access.shares_responses
        )
        if not self._shared.peers.alone:
            for _, part in load_group(MESSAGES, settings.strict):
                if callable(part):
                    self._shared.of(part)  # Other front ends may send messages before the first request.
        self.lines = self._shared.lines
        """The sink of the access log. While it has no subscribers, models have no stage for it."""
        self.lines.changed = self._record_calls
        self.subscribers = Subscribers(self.lines)
        self._served: dict[ModelKey, ServedModel] = {}
        self._defaults: dict[str, ServedModel] = {}
        self.routes: list[tuple[CustomHandler, str]] = []
        """REST routes that models define, with the models' names. Replaced whenever models change."""
        self.faceted: dict[type, list[tuple[ModelKey, ServedModel]]] = {}
        """The models that have a facet of each type. Updated together with `routes`."""
        self.typed: list[tuple[str, Signature]] = []
        """Models with a typed RPC, sorted by name. Replaced whenever models change."""
        self._states: dict[ModelKey, tuple[State, str]] = {}
        self.first_calls = FirstCalls(self._load_first)
        self._retiring: dict[asyncio.Task[None], ServedModel] = {}
        self.leaving = False
        """Whether the server reports that it is not ready, but keeps serving until load balancers notice."""
        self.draining = False
        self.listing = False
        """Whether startup has not listed the models yet, so that any model may exist."""

    @property
    def parts(self) -> ServerParts:
        """The objects that this server's stages and edges share."""
        return self._shared

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether every expected model is ready."""

    @abstractmethod
    async def index(self, ready: bool) -> list[RepositoryIndexResponseItem]:
        """Return every version on disk or in memory, or only the versions that serve if `ready`."""

    @abstractmethod
    async def load(self, name: str) -> None:
        """Load every version of a model on disk. Raises ModelNotFound or ModelLoadFailed."""

    @abstractmethod
    async def unload(self, name: str) -> bool:
        """Retire every version of a model once its calls have finished. Returns False if there are none."""

    async def _load_first(self, key: ModelKey) -> None:
        """Load a model for its first calls. Raises ModelNotReady or OutOfMemory."""
        raise ModelNotReady(*key)  # With several front ends, no model loads on demand.

    def find_on_demand(self, name: str, version: str | None = None) -> ModelKey | None:
        """Return the version that would serve a call if it loads on demand, or None."""
        versions = [
            its
            for its, state in self._unavailable_versions(name, version)
            if state is State.READY or (name, its) in self.first_calls
        ]
        return (name, newest(versions)) if versions else None

    def _unavailable_versions(self, name: str, version: str | None) -> list[tuple[str | None, State]]:
        """Return the versions that are not serving, with their states. `version` limits them to one."""
        return [
            (its, state)
            for (known, its), (state, _) in self._states.items()
            if known == name and version in (None, "", its)
        ]

    def serving(self, name: str, version: str | None = None, caller: Caller | None = None) -> ServedModel:
        """Return the model, if it is ready.

        If traffic is split between versions, one is chosen for the caller. Raises Draining, ModelNotFound,
        ModelNotReady or NotLoaded.
        """
        if self.draining:
            raise Draining
        return self._resolve(name, version, caller)

    async def _callee(self, name: str) -> Callee:
        """Return the model for a call by another model, even while the server drains.

        Raises ModelNotFound or ModelNotReady.
        """
        while True:
            try:
                served = self._resolve(name)
                return Callee(served.execution, served.handler, served.pipeline.app)
            except NotLoaded as unloaded:
                if self.draining:
                    raise Draining from None
                await self.first_calls.wait(unloaded.key)

    def _resolve(self, name: str, version: str | None = None, caller: Caller | None = None) -> ServedModel:
        try:
            served = self.get(name, version)
        except ModelNotReady:
            if (key := self.find_on_demand(name, version)) is None:
                raise
            raise NotLoaded(key) from None
        if served.choose is not None and caller is not None and not version:
            served = self._choose_version(served.choose, name, caller) or served
        if not served.ready:
            raise ModelNotReady(name, version)
        return served

    def _choose_version(self, choose: ChooseVersion, name: str, caller: Caller) -> ServedModel | None:
        """Return the version for a caller, among the ready ones. Returns None for the default version."""

        def is_ready(version: str) -> bool:
            served = self._served.get((name, version))
            return served is not None and served.ready

        version = choose(is_ready, caller)
        return None if version is None else self._served[name, version]

    def get(self, name: str, version: str | None = None) -> ServedModel:
        """Return the model, whether or not it is ready.

        Raises ModelNotFound, or ModelNotReady while it loads or after its load failed.
        """
        served = self._served.get((name, version)) if version else self._defaults.get(name)
        if served is None:
            states = {state for _, state in self._unavailable_versions(name, version)}
            if not states and not self.listing:
                raise ModelNotFound(name, version, self._list_available(name))
            raise ModelNotReady(name, version, failed=states == {State.UNAVAILABLE})
        return served

    def _list_available(self, name: str) -> str:
        """List the available versions or models, for an error message.

        Empty if clients are restricted, or if the message must match MLServer's, which MLServer clients
        compare.
        """
        if self._settings.status_profile == "mlserver" or self._access.restricts:
            return ""
        versions = [version for known, version in self._served if known == name and version]
        if versions:
            return f"it has {_format_names('version', sorted(versions, key=lambda its: (len(its), its)))}"
        if name in self._defaults:
            return f"it has no versions{HINT}leave the version out"
        names = sorted(self._defaults)
        return f"there {'is' if len(names) == 1 else 'are'} {_format_names('model', names)}" if names else ""

    @property
    def unserved(self) -> dict[ModelKey, tuple[State, str]]:
        """States and reasons of models that are loading or failed to load."""
        return self._states

    def default(self, name: str) -> ServedModel | None:
        """Return the version of a model that serves calls without a version."""
        return self._defaults.get(name)

    def items(self) -> list[tuple[ModelKey, ServedModel]]:
        """Return all loaded models, by name and version."""
        return [*self._served.items()]

    def calls_in_progress(self) -> list[Live]:
        """Return the calls in progress of all models, including retired ones."""
        return [served.live for served in (*self._served.values(), *self._retiring.values())]

    def names(self) -> list[ModelKey]:
        return [*self._served]

    def summary(self) -> list[tuple[str, str, str, str, str]]:
        """Return the name, version, capabilities, load time and state of every model, for display."""
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

    async def _build_pipeline(self, execution: Execution) -> Pipeline:
        """Wrap a model in its stages. If that fails, unload it. Raises ModelLoadFailed."""
        try:
            app = await find_app(execution.settings)
            return build_pipeline(execution, self._shared, app)
        except BaseException:  # Including cancellation.
            self.edges.remove(execution)
            await execution.unload()
            raise

    def _put(self, key: ModelKey, served: ServedModel) -> None:
        """Serve this version from now on, and retire its predecessor."""
        self._states.pop(key, None)
        if self.lines.on and not self._settings.access_log:
            served.record_to(self.lines)
        old = self._served.get(key)
        self._served[key] = served
        if old is None:  # Sorted here, because load reports read this 20 times per second.
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
        """Choose the default for calls without a version: the unversioned model, or the highest version."""
        versions = [version for known, version in self._served if known == name]
        waiting = [its for its, state in self._unavailable_versions(name, None) if state is State.READY]
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
        """Reject new calls, wait up to `grace` seconds for calls in progress, and cancel the rest."""
        self.draining = True
        self.first_calls.cancel()
        for served in self._served.values():
            served.withdrawn = True
        for act in self._shared.at_stop:
            act()
        lives = self.calls_in_progress()
        try:
            async with asyncio.timeout(grace):
                await asyncio.gather(*(live.wait_until_empty() for live in lives))
        except TimeoutError:
            for live in lives:
                live.fail(Draining())
        self.subscribers.end()

    async def unload_all(self, limit: float) -> None:
        """Call `unload` of every model, within `limit` seconds in total."""
        try:
            async with asyncio.timeout(limit):
                unloading = (served.execution.unload() for served in self._served.values())
                await asyncio.gather(*unloading, *self._retiring)
        except TimeoutError:
            logger.error("models are still unloading after %g s; no longer waiting", limit)


def _format_names(what: str, names: list[str]) -> str:
    """Format up to `MAX_NAMES` names, such as `model a` or `models a, b`."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names[:MAX_NAMES])}{more}"
