"""Turns of plug-ins, in place of the first to come."""

import asyncio
from typing import Any

import pytest

from inferstream import MLModel, ModelSettings, Settings
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.turns import Turns, find_turns
from inferstream.plugins.keys.shares import Shares
from inferstream.server.application import Application
from inferstream.types import Headers, InferenceRequest, InferenceResponse


class Stack:
    """The last to come is the first to run."""

    def __init__(self) -> None:
        self.turns: list[Any] = []

    @property
    def length(self) -> int:
        return len(self.turns)

    def __len__(self) -> int:
        return len(self.turns)

    def add(self, turn: Any, call: Call, now: float) -> None:
        self.turns.append(turn)

    def remove(self, turn: Any, call: Call) -> None:
        if turn in self.turns:
            self.turns.remove(turn)

    def pop(self) -> Any:
        return self.turns.pop()


class LastFirst(Turns):
    started: list[str]

    @classmethod
    def is_on(cls, settings: Settings) -> bool:
        return True

    def queue(self, aging: float) -> Stack:
        return Stack()

    def start(self, call: Call) -> None:
        self.started.append(str(call.request.id))

    def settle(self, call: Call, tokens: int) -> None:
        """Nothing to count."""


class Held(MLModel):
    gate: asyncio.Semaphore

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        await self.gate.acquire()
        return InferenceResponse(model_name="m", outputs=[])


@pytest.mark.parametrize(
    ("settings", "turns"),
    [
        ({}, ""),
        ({"trusted_proxies": ["10.0.0.0/8"]}, f"{Shares.__module__}:Shares"),
    ],
)
def test_queue_order_follows_the_settings(settings: dict[str, Any], turns: str) -> None:
    assert find_turns(Settings(**settings)) == turns


async def test_plugin_provides_the_queue_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferstream.dataplane.pipeline.find_turns", lambda _: f"{__name__}:LastFirst")
    LastFirst.started = []
    model = Held(ModelSettings(name="m", implementation=Held, max_concurrency=1, loop="server"))
    model.gate = asyncio.Semaphore(0)
    async with Application(model) as application:

        async def ask(name: str) -> None:
            admission = application.models.admit("m", None, Caller(Headers([]), "http"))
            await admission.open(Operation.INFER, InferenceRequest(id=name, inputs=[]))

        tasks = [asyncio.create_task(ask(name)) for name in "abcd"]
        meters = application._backend.dataplane._registry.get("m").pipeline.meters
        while meters.queue.depth < 3:
            await asyncio.sleep(0)
        tasks[2].cancel()  # it leaves the queue
        while meters.queue.depth > 2:
            await asyncio.sleep(0)
        for _ in range(3):
            model.gate.release()
        await asyncio.wait(tasks)
    assert LastFirst.started == ["a", "d", "b"]
