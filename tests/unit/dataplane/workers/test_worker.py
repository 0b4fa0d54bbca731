"""A worker from the inside: whatever the server sends, each call is told its end and each tensor given back."""

import asyncio
import gc
import json
import threading
import weakref
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from inferstream import MLModel
from inferstream.dataplane.workers.frames import (
    Cancel,
    Describe,
    Ended,
    Failed,
    Free,
    Item,
    Loaded,
    LoadInstance,
    MeterChanges,
    More,
    Open,
    Ping,
    Readiness,
    Stop,
    Unloaded,
    UnloadInstance,
)
from inferstream.dataplane.workers.packing import pack_request
from inferstream.dataplane.workers.worker import Worker
from inferstream.plugins.keys.shares import Shares
from inferstream.processes import shared_memory
from inferstream.processes.frames import Answer, Failure, Frame, Query
from inferstream.server.custom import build_route_handler
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    RequestInput,
    ResponseOutput,
)


def completes(frame: object) -> bool:
    """Whether it is the only response of a call."""
    return isinstance(frame, Item) and frame.last


class Echo(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        (tensor,) = payload.inputs
        output = ResponseOutput(name="y", shape=tensor.shape, datatype=tensor.datatype, data=tensor.data)
        return InferenceResponse(model_name=self.name, outputs=[output])


class Waiting(Echo):
    """Answers once the test lets it."""

    may: ClassVar[threading.Event]
    began: ClassVar[list[str]] = []
    ended: ClassVar[list[str]] = []

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        self.began.append("")
        try:
            while not self.may.is_set():
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        return await super().predict(payload)


class Numbered(MLModel):
    """Names its version by a number, as authors do, where the protocol wants text."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        response = InferenceResponse(model_name=self.name, outputs=[])
        response.model_version = 3
        return response


class Undeclarable(MLModel):
    async def load(self) -> bool:
        self.inputs = [SimpleNamespace(name="x")]
        return True


class Undescribable(Echo):
    """Has become what its metadata cannot say, and answers all the same."""

    async def load(self) -> bool:
        self._settings.platform = 3  # type: ignore[assignment]  # which no metadata can hold
        return True


class Speaking(Echo):
    async def metadata(self) -> MetadataModelResponse:
        return MetadataModelResponse(name=self.name, platform="its own words")


class Cancelling(MLModel):
    async def load(self) -> bool:
        raise asyncio.CancelledError

    async def unload(self) -> bool:
        raise asyncio.CancelledError


class CancellingUnload(Echo):
    async def unload(self) -> bool:
        raise asyncio.CancelledError


class Knotted(Echo):
    """Holds on to itself, as nearly everything large does."""

    alive: ClassVar[weakref.WeakSet["Knotted"]] = weakref.WeakSet()

    async def load(self) -> bool:
        self.itself = self
        self.alive.add(self)
        return True


class Another:
    """A front end that does not own the worker, of which the test holds the wire."""

    def __init__(self, worker: Worker) -> None:
        self.sent: list[Frame] = []
        self.closed = False
        with shared_memory.create_memory() as requests, shared_memory.create_memory() as responses:
            self.arena = shared_memory.Outgoing(requests)
            worker.admit(self._link, (requests, responses))

    def _link(self, decoder: Any, received: Any, lost: Any) -> "Another":
        self._decoder, self._received, self.lost = decoder, received, lost
        return self

    def tell(self, frame: Frame) -> None:
        self._received(self._decoder.decode(msgspec.msgpack.encode(frame)))

    def send(self, frame: Frame) -> int:
        self.sent.append(frame)
        return 1

    def close(self) -> None:
        self.closed = True


class Inside:
    """A worker in this process, with a server that only listens."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[Frame] = asyncio.Queue()
        with shared_memory.create_memory() as requests, shared_memory.create_memory() as responses:
            self.arena = shared_memory.Outgoing(requests)
            self.flags = shared_memory.Incoming(responses, lambda: None).flags
            self.worker = Worker(self._link, requests, responses, build_route_handler)

    def _link(self, decoder: Any, received: Any, lost: object) -> "Inside":
        self._decoder, self._received = decoder, received
        return self

    def tell(self, frame: Frame) -> None:
        self._received(self._decoder.decode(msgspec.msgpack.encode(frame)))

    def send(self, frame: Frame) -> int:
        self.sent.put_nowait(frame)
        return 1

    async def next(self) -> Frame:
        async with asyncio.timeout(5):
            return await self.sent.get()

    async def answer(self, question: Query[Any]) -> Any:
        """The answer to a question, or its failure."""
        self.tell(question)
        answer = await self.next()
        while isinstance(answer, Readiness | MeterChanges):  # whenever something has changed
            answer = await self.next()
        assert isinstance(answer, Answer)
        assert answer.number == question.number
        return answer.failure or answer.value

    async def load(self, model: type[MLModel], **more: object) -> Loaded | Failure:
        settings = {"implementation": f"{model.__module__}.{model.__qualname__}", "name": "m", **more}
        return await self.answer(LoadInstance(1, json.dumps(settings).encode(), None, 5, number=3))

    def request(self, count: int = 1, memory: shared_memory.Outgoing | None = None) -> Any:
        data = np.ones(count, np.float32)
        tensor = RequestInput(name="x", shape=[count], datatype="FP32", data=data)
        return pack_request(InferenceRequest(id="r", inputs=[tensor]), memory or self.arena)

    def open(self, count: int = 1, number: int = 7, share: str = "") -> None:
        self.tell(
            Open(number, 1, False, 8, False, None, 5, self.request(count), values={"share": (share, 0)})
        )


@pytest.fixture
async def inside(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Inside]:
    monkeypatch.setattr("inferstream.garbage._settled", False)  # later tests that unload models would collect
    worker = Inside()
    yield worker
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def test_call_returns_a_response(inside: Inside) -> None:
    assert isinstance(await inside.load(Echo), Loaded)
    inside.open()
    assert completes(await inside.next())


async def test_caller_can_see_which_calls_have_started(inside: Inside) -> None:
    Waiting.may = asyncio.Event()
    await inside.load(Waiting, worker_concurrency=1)
    inside.open(number=7)
    inside.open(number=8)
    async with asyncio.timeout(5):
        while not inside.flags[7]:
            await asyncio.sleep(0)
    assert inside.flags[8] == 0
    Waiting.may.set()
    ends = [frame.call for frame in (await inside.next(), await inside.next()) if completes(frame)]
    assert (ends, inside.flags[8]) == ([7, 8], 1)


@pytest.mark.parametrize("fair", [False, True])
async def test_principals_share_the_queue_fairly(inside: Inside, fair: bool) -> None:
    inside.worker._models.turns = Shares if fair else None
    Waiting.may = asyncio.Event()
    await inside.load(Waiting, worker_concurrency=1)
    for number, share in enumerate("aaab", 7):
        inside.open(number=number, share=share)
    async with asyncio.timeout(10):
        while not inside.flags[7]:
            await asyncio.sleep(0)
    Waiting.may.set()
    ends = [frame.call for frame in [await inside.next() for _ in range(4)] if completes(frame)]
    assert ends == ([7, 10, 8, 9] if fair else [7, 8, 9, 10])


async def test_call_cancelled_before_start_receives_its_end(inside: Inside) -> None:
    await inside.load(Echo)
    inside.open()
    inside.tell(Cancel(7))
    assert await inside.next() == Ended(7)
    queued = await inside.next()
    assert isinstance(queued, MeterChanges)
    assert (queued.meters, queued.changes.numbers) == ("QueueMeters", [0, 0, 0, 0, 1])


async def test_call_expired_before_start_is_reported_as_expired(inside: Inside) -> None:
    await inside.load(Echo)
    inside.open()
    inside.tell(Cancel(7, expired=True))
    assert await inside.next() == Ended(7)
    queued = await inside.next()
    assert isinstance(queued, MeterChanges)
    assert (queued.meters, queued.changes.numbers) == ("QueueMeters", [0, 0, 0, 1, 0])


async def test_load_result_describes_the_model(inside: Inside) -> None:
    loaded = await inside.load(Echo)
    assert isinstance(loaded, Loaded)
    assert loaded.metadata is not None
    said = MetadataModelResponse.model_validate_json(loaded.metadata)
    assert said == MetadataModelResponse(name="m", platform="", versions=[], inputs=[], outputs=[])


@pytest.mark.parametrize("model", [Speaking, Undescribable])
async def test_custom_metadata_is_read_from_the_model(inside: Inside, model: type[MLModel]) -> None:
    loaded = await inside.load(model)
    assert isinstance(loaded, Loaded)
    assert loaded.metadata is None
    described = await inside.answer(Describe(1, number=9))
    if model is Speaking:
        assert b"its own words" in described
    else:
        assert isinstance(described, Failure)


async def test_late_request_releases_its_memory(inside: Inside) -> None:
    await inside.load(Echo)
    inside.tell(More(8, inside.request(100_000)))
    gc.collect()
    freed = await inside.next()
    assert isinstance(freed, Free)
    inside.arena.free(freed.places)


async def test_invalid_response_fails_only_its_call(inside: Inside) -> None:
    await inside.load(Numbered)
    inside.open()
    failed = await inside.next()
    assert isinstance(failed, Failed)
    assert "model_version" in failed.failure.message


@pytest.mark.parametrize("model", [Undeclarable, Cancelling])
async def test_unexpected_error_during_load_is_a_load_failure(inside: Inside, model: type[MLModel]) -> None:
    failed = await inside.load(model)
    assert isinstance(failed, Failure)
    assert "m did not load" in failed.message


async def test_model_is_removed_after_unexpected_error_during_unload(inside: Inside) -> None:
    await inside.load(CancellingUnload)
    assert await inside.answer(UnloadInstance(1)) is None


async def test_unloaded_model_releases_its_memory(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferstream.garbage.SOON", 0.0)
    await inside.load(Knotted)
    assert len(Knotted.alive) == 1
    assert await inside.answer(UnloadInstance(1)) is None
    async with asyncio.timeout(20):
        while Knotted.alive:
            await asyncio.sleep(0.01)


async def test_second_front_end_calls_loaded_models_and_sees_changes(inside: Inside) -> None:
    await inside.load(Echo)
    other = Another(inside.worker)
    assert other.sent == [Readiness(1, True, 1)]
    other.tell(Open(7, 1, False, 8, False, None, 5, inside.request(memory=other.arena)))
    inside.open()  # of the same number, which is another call
    assert completes(await inside.next())
    assert completes(other.sent[-1])
    assert await inside.answer(UnloadInstance(1)) is None
    assert other.sent[-1] == Unloaded(1)
    other.tell(Open(8, 1, False, 8, False, None, 5, inside.request(memory=other.arena)))
    assert isinstance(other.sent[-1], Failed)


@pytest.mark.parametrize("frame", [LoadInstance(1, b"{}", None, 5), UnloadInstance(1), Stop(1)])
async def test_second_front_end_cannot_change_models(inside: Inside, frame: Frame) -> None:
    with pytest.raises(msgspec.ValidationError):
        Another(inside.worker).tell(frame)


async def test_calls_of_lost_front_end_end_and_no_others(inside: Inside) -> None:
    Waiting.may, Waiting.began, Waiting.ended = threading.Event(), [], []
    await inside.load(Waiting)
    other = Another(inside.worker)
    inside.open()
    other.tell(Open(7, 1, False, 8, False, None, 5, inside.request(memory=other.arena)))
    async with asyncio.timeout(5):
        while len(Waiting.began) < 2:
            await asyncio.sleep(0)
    assert await inside.answer(Ping()) == 1
    other.lost()
    async with asyncio.timeout(5):
        while not Waiting.ended:
            await asyncio.sleep(0)
    assert await inside.answer(Ping()) == 0
    Waiting.may.set()
    assert completes(await inside.next())
    assert Waiting.ended == ["cancelled"]
    assert other.closed
