"""Sequences: their starts and ends, their order, and how they are forgotten."""

import asyncio
from typing import Any

import pytest

from inferstream.errors import InvalidRequest, Overloaded
from inferstream.ext.calls import Call, Operation, Reply
from inferstream.plugins.triton import sequences
from inferstream.plugins.triton.sequences import Sequences
from inferstream.types import InferenceRequest, InferenceResponse, Parameters


def call(number: object = 7, principal: str | None = None, **flags: object) -> Call:
    said = {"sequence_id": number} if number is not None else {}
    request = InferenceRequest(inputs=[], parameters=Parameters(**said, **flags))
    return Call(Operation.INFER, "m", None, request, {}, principal=principal)


class Model:
    """Answers when it is told to, and notes what runs."""

    def __init__(self) -> None:
        self.running: list[Call] = []
        self.most = 0
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, call: Call) -> Reply:
        self.running.append(call)
        self.most = max(self.most, len(self.running))
        try:
            await self.go.wait()
        finally:
            self.running.remove(call)
        return Reply(InferenceResponse(model_name="m", outputs=[]))


def made(idle: float = 100.0, length: int = 8) -> tuple[Sequences, Model]:
    model = Model()
    return Sequences(model, "m", idle, length), model


async def test_sequence_runs_from_start_to_end() -> None:
    handler, _ = made()
    with pytest.raises(InvalidRequest, match="no open sequence 7: its first request has sequence_start"):
        await handler(call())
    first = call(sequence_start=True)
    await handler(first)
    second = call(sequence_end=True)
    await handler(second)
    assert first.affinity is second.affinity
    with pytest.raises(InvalidRequest, match="no open sequence"):
        await handler(call())
    handler.close()


async def test_second_start_restarts_sequence() -> None:
    handler, _ = made()
    first, again = call("a", sequence_start=True), call("a", sequence_start=True)
    await handler(first)
    await handler(again)
    assert first.affinity is not again.affinity
    handler.close()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (None, "names its own"),
        (0, "names its own"),
        ("", "names its own"),
        (True, "a number"),
        (1.5, "a number"),
    ],
)
async def test_request_needs_an_id(number: object, said: str) -> None:
    handler, _ = made()
    with pytest.raises(InvalidRequest, match=said):
        await handler(call(number, sequence_start=True))


async def test_principals_have_separate_sequences() -> None:
    handler, _ = made()
    await handler(call(principal="ann", sequence_start=True))
    with pytest.raises(InvalidRequest):
        await handler(call(principal="bob"))
    handler.close()


async def test_principal_has_share_of_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferstream.plugins.triton.sequences.MAX_SEQUENCES_PER_CLIENT", 2)
    handler, _ = made()
    for number in (1, 2):
        await handler(call(number, principal="ann", sequence_start=True))
    with pytest.raises(Overloaded, match="has 2 open sequences of this client already"):
        await handler(call(3, principal="ann", sequence_start=True))
    for number in (1, 2):
        await handler(call(number, principal="bob", sequence_start=True))
        await handler(call(number, principal="ann", sequence_start=True))
    await handler(call(1, principal="ann", sequence_end=True))
    await handler(call(3, principal="ann", sequence_start=True))
    for number in range(1, 9):
        await handler(call(number, sequence_start=True))
    handler.close()


async def test_one_sequence_is_serial_and_two_run_concurrently() -> None:
    handler, model = made()
    await handler(call(1, sequence_start=True))
    await handler(call(2, sequence_start=True))
    model.go.clear()
    calls = [call(number) for number in (1, 1, 2, 1)]
    tasks = [asyncio.create_task(handler(each)) for each in calls]
    while len(model.running) < 2:
        await asyncio.sleep(0)
    assert model.running == [calls[0], calls[2]]
    model.go.set()
    await asyncio.gather(*tasks)
    assert model.most == 2
    handler.close()


async def test_cancelled_request_unblocks_next() -> None:
    handler, model = made(length=3)
    await handler(call(sequence_start=True))
    model.go.clear()
    tasks = [asyncio.create_task(handler(call())) for _ in range(3)]
    while not model.running:
        await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="has 3 requests already"):
        await handler(call())
    tasks[0].cancel()
    tasks[1].cancel()
    model.go.set()
    results: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results] == [asyncio.CancelledError, asyncio.CancelledError, Reply]
    await handler(call(sequence_end=True))
    handler.close()


async def test_idle_sequence_ends() -> None:
    handler, model = made(idle=0.01)
    await handler(call(1, sequence_start=True))
    model.go.clear()
    busy = asyncio.create_task(handler(call(2, sequence_start=True)))
    while not model.running:
        await asyncio.sleep(0)
    while len(handler._open) == 2:
        await asyncio.sleep(0.005)
    assert [*handler._open] == [("", 2)]
    model.go.set()
    await busy
    while handler._open:
        await asyncio.sleep(0.005)
    assert handler._timer is None


async def test_open_sequences_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "MAX_SEQUENCES", 1)
    handler, _ = made()
    await handler(call(1, sequence_start=True))
    with pytest.raises(Overloaded, match="1 open sequences"):
        await handler(call(2, sequence_start=True))
    handler.close()
