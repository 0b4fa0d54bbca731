"""The models of a front end. They are loaded from their folders or attached to workers of the supervisor."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import orjson

from ...dataplane.access import Authority
from ...dataplane.execution.base import Execution
from ...dataplane.peers import Peers
from ...dataplane.serving import ServedModel, Serving
from ...processes.frames import Frame, Query
from ...settings import Settings
from ...telemetry.metrics import Meters
from ...types import RepositoryIndexResponseItem, State
from . import frames
from .access_log import RecordSender

A = TypeVar("A")


class Asking(Protocol):
    """Sends a question to the supervisor."""

    def __call__(self, question: Query[A]) -> Awaitable[A]: ...


class FrontEndRegistry(Serving):
    """Serves the models that the supervisor selects, and forwards repository operations to it."""

    def __init__(
        self,
        settings: Settings,
        access: Authority,
        meters: Meters,
        peers: Peers | None,
        ask: Asking,
        send: Callable[[Frame], object],
    ) -> None:
        super().__init__(settings, access, meters, peers)
        self._ask = ask
        self._supervisor_ready = False
        self._prepared: dict[int, asyncio.Task[ServedModel]] = {}
        self._numbers: dict[ServedModel, int] = {}
        self._held: dict[int, asyncio.Event] = {}
        self._records = RecordSender(send)
        self.subscribers.changed = lambda on: send(frames.Subscribed(on))

    @property
    def ready(self) -> bool:
        """Whether the supervisor is ready and this front end is not draining.

        Only the supervisor has the state of all front ends and workers.
        """
        return self._supervisor_ready and not self.draining

    async def store_states(self, frame: frames.Tell) -> None:
        """Store the supervisor's readiness and the states of models that are not serving."""
        self._supervisor_ready = frame.ready
        self._states = {(name, version): (State(state), "") for name, version, state in frame.states}

    def send_records(self, frame: frames.SendRecords) -> None:
        """Start or stop sending the records of the access log to the supervisor."""
        if frame.on:
            self.lines.add(self._records.put)
        else:
            self.lines.remove(self._records.put)

    async def index(self, ready: bool) -> list[RepositoryIndexResponseItem]:
        items: bytes = await self._ask(frames.ListModels(ready))
        return [RepositoryIndexResponseItem.model_validate(item) for item in orjson.loads(items)]

    async def load(self, name: str) -> None:
        await self._ask(frames.LoadVersions(name))

    async def unload(self, name: str) -> bool:
        return await self._ask(frames.UnloadVersions(name))

    def prepare(self, number: int, loading: Awaitable[Execution]) -> Coroutine[Any, Any, None]:
        """Start loading a model without routing calls to it.

        The returned coroutine waits for the load, and raises ModelLoadFailed if it fails.
        """
        self._held[number] = asyncio.Event()
        preparing = self._prepared[number] = asyncio.create_task(self._prepare(loading))
        return _wait_for_end(preparing)

    async def _prepare(self, loading: Awaitable[Execution]) -> ServedModel:
        execution = await loading
        return ServedModel(execution, await self._build_pipeline(execution))

    async def serve(self, number: int) -> None:
        """Route calls for the model's name and version to this model.

        Raises ModelLoadFailed if it failed to load.
        """
        served = await self._prepared[number]
        del self._prepared[number]
        self._numbers[served] = number
        self._put((served.execution.settings.name, served.execution.settings.version), served)

    async def withdraw(self, number: int) -> None:
        """Stop routing calls to a model, and release it."""
        prepared = self._prepared.pop(number, None)
        if prepared is not None:
            prepared.cancel()
            await asyncio.wait([prepared])
            if not prepared.cancelled() and prepared.exception() is None:
                await prepared.result().execution.unload()
            self._held.pop(number).set()
            return
        for key, served in list(self._served.items()):
            if self._numbers.get(served) == number:
                del self._served[key]
                self._choose_default(key[0])
                self._retire(served)

    async def wait_for_release(self, number: int) -> None:
        """Wait until this model has been released."""
        held = self._held.get(number)
        if held is not None:
            await held.wait()

    def _retire(self, served: ServedModel) -> asyncio.Task[None]:
        retiring = super()._retire(served)
        retiring.add_done_callback(lambda _: self._held.pop(self._numbers.pop(served)).set())
        return retiring


async def _wait_for_end(preparing: asyncio.Task[ServedModel]) -> None:
    await asyncio.wait([preparing])
    if not preparing.cancelled():
        preparing.result()
