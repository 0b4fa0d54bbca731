"""The models of a follower: it serves what the leader tells it to."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import orjson

from ...dataplane.execution.base import Execution
from ...dataplane.serving import ServedModel, Serving
from ...settings import Settings
from ...telemetry.metrics import Meters
from ...types import RepositoryIndexResponseItem, State
from . import frames

if TYPE_CHECKING:
    from ...telemetry.tracing import Tracer

Asking = Callable[[str, str], Awaitable[bytes]]
"""Asks the leader to do something with what has a name."""


class FollowerRegistry(Serving):
    """Does as the leader says, and asks it to change anything; `released` is told what nothing holds any more."""

    def __init__(
        self,
        settings: Settings,
        meters: Meters,
        tracer: "Tracer | None",
        ask: Asking,
        released: Callable[[int], None],
    ) -> None:
        super().__init__(settings, meters, tracer)
        self._ask = ask
        self._released = released
        self._leader_ready = False
        self._prepared: dict[int, asyncio.Task[ServedModel]] = {}
        self._numbers: dict[ServedModel, int] = {}

    @property
    def ready(self) -> bool:
        """Whether the leader is, which alone knows of all front ends and workers."""
        return self._leader_ready and not self.draining

    def tell(self, frame: frames.Tell) -> None:
        """Know what the leader says of itself, and of what it does not serve."""
        self._leader_ready = frame.ready
        self._states = {(name, version): (State(state), "") for name, version, state in frame.states}

    async def index(self, ready: bool) -> list[RepositoryIndexResponseItem]:
        items = orjson.loads(await self._ask("ready" if ready else "index", ""))
        return [RepositoryIndexResponseItem.model_validate(item) for item in items]

    async def load(self, name: str) -> None:
        await self._ask("load", name)

    async def unload(self, name: str) -> bool:
        return bool(await self._ask("unload", name))

    def prepare(self, number: int, loading: Awaitable[Execution]) -> Coroutine[Any, Any, None]:
        """Begin to load a model, and give it no calls yet; what is returned raises ModelLoadFailed."""
        preparing = self._prepared[number] = asyncio.create_task(self._prepare(loading))
        return _end_of(preparing)

    async def _prepare(self, loading: Awaitable[Execution]) -> ServedModel:
        execution = await loading
        return ServedModel(execution, await self._around(execution))

    async def serve(self, number: int) -> None:
        """Give it the calls of its name and version. Raises ModelLoadFailed when it did not load."""
        served = await self._prepared[number]
        del self._prepared[number]
        self._numbers[served] = number
        self._put((served.execution.settings.name, served.execution.settings.version), served)

    async def withdraw(self, number: int) -> None:
        """Give it no more calls, and let go of it."""
        prepared = self._prepared.pop(number, None)
        if prepared is not None:
            prepared.cancel()
            await asyncio.wait([prepared])
            if not prepared.cancelled() and prepared.exception() is None:
                await prepared.result().execution.unload()
            self._released(number)
            return
        for key, served in list(self._served.items()):
            if self._numbers.get(served) == number:
                del self._served[key]
                self._choose_default(key[0])
                self._retire(served)

    def _retire(self, served: ServedModel) -> asyncio.Task[None]:
        retiring = super()._retire(served)
        retiring.add_done_callback(lambda _: self._released(self._numbers.pop(served)))
        return retiring


async def _end_of(preparing: asyncio.Task[ServedModel]) -> None:
    await asyncio.wait([preparing])
    if not preparing.cancelled():
        preparing.result()
