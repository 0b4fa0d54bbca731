"""The cache stage around a handler that the test controls: who is computed for, and what is kept."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.reply import Reply, StreamReply
from inferstream.dataplane.slots import Slots
from inferstream.dataplane.stages import flight
from inferstream.dataplane.stages.cache import Cache, _digest
from inferstream.dataplane.stages.limits import Limits
from inferstream.dataplane.stages.live import Deadline, Live
from inferstream.dataplane.stages.store import Store
from inferstream.errors import DeadlineExceeded, ModelError, Overloaded
from inferstream.telemetry.stages import CacheMeters, QueueMeters, StoreMeters
from inferstream.types import (
    Headers,
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)
from tests.examples import examples

EVER = float("inf")


def request(value: float = 1.0, id: str = "i", **changed) -> InferenceRequest:
    tensor = {"name": "x", "shape": [1], "datatype": "FP32", "data": [value]}
    tensor |= {key: changed.pop(key) for key in ("name", "shape", "datatype", "data") if key in changed}
    return InferenceRequest(id=id, inputs=[RequestInput(**tensor)], **changed)


def response(*values: float) -> InferenceResponse:
    data = np.array(values, np.float32)
    output = ResponseOutput(name="y", shape=[len(values)], datatype="FP32", data=data)
    return InferenceResponse(model_name="m", id="the model's", outputs=[output])


class Model:
    """Answers when it is let: the value times ten, as a stream with an index behind each; below 0 it fails."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.gates: list[asyncio.Semaphore] = []
        self.ended = 0
        self.made = 0

    async def __call__(self, call: Call) -> Reply:
        gate = asyncio.Semaphore(0)
        self.calls.append(call)
        self.gates.append(gate)
        value = call.request.inputs[0].data.flat()[0]
        if call.operation is Operation.STREAM:
            responses = self._responses(value, gate)
            try:
                return StreamReply(await anext(responses), responses)
            except StopAsyncIteration:
                return StreamReply(None, responses)
        try:
            await gate.acquire()
            if value < 0:
                raise ModelError(f"no {value:g}")
            self.made += 1
            return Reply(response(value * 10))
        finally:
            self.ended += 1

    async def _responses(self, value: float, gate: asyncio.Semaphore) -> AsyncIterator[InferenceResponse]:
        """As many as the value says, and then an error if it is negative."""
        reused = np.zeros(2, np.float32)
        try:
            for i in range(int(abs(value))):
                await gate.acquire()
                reused[:] = value * 10, i
                self.made += 1
                yield InferenceResponse(
                    model_name="m",
                    outputs=[ResponseOutput(name="y", shape=[2], datatype="FP32", data=reused)],
                )
            if value < 0:
                raise ModelError(f"no {value:g}")
        finally:
            self.ended += 1

    def open(self, index: int = 0, times: int = 1) -> None:
        for _ in range(times):
            self.gates[index].release()

    def open_all(self) -> None:
        for gate in self.gates:
            for _ in range(20):
                gate.release()


class Caller:
    """One request on its way through the stage; reads on when `paces` lets it."""

    def __init__(self, stage: "Stage", asked: InferenceRequest, operation: Operation, **given) -> None:
        self.call = Call(operation, "m", None, asked, Headers([("caller", asked.id)]), **given)
        self.asked, self.operation = asked, operation
        self.read: list[InferenceResponse] = []
        self.paces: asyncio.Semaphore | None = None
        self.task = asyncio.ensure_future(self._answer(stage))

    async def _answer(self, stage: "Stage") -> None:
        async with await stage.handler(self.call) as reply:
            assert reply.single == (self.operation is Operation.INFER)
            async for item in reply:
                self.read.append(item)
                if self.paces is not None:
                    await self.paces.acquire()

    @property
    def values(self) -> list[list[float]]:
        return [item.outputs[0].data.flat() for item in self.read]

    def check(self) -> None:
        """It has all of its own answer under its own id, or its own error after the right beginning of it."""
        value = self.asked.inputs[0].data.flat()[0]
        whole = [[value * 10]] if self.operation is Operation.INFER else []
        if self.operation is Operation.STREAM:
            whole = [[value * 10, float(i)] for i in range(int(abs(value)))]
        assert [item.id for item in self.read] == [self.asked.id] * len(self.read)
        error = None if self.task.cancelled() else self.task.exception()
        if error is None and not self.task.cancelled():
            assert self.values == whole
            assert value > 0
        else:
            assert self.values == whole[: len(self.read)]
        if isinstance(error, ModelError):
            assert value < 0
            assert str(error) == f"no {value:g}"


class Stage:
    """A cache between the stages that end calls and a model."""

    def __init__(self, entries: int = 10, room: int = 10**6, seconds: float = EVER, most: int = 99) -> None:
        self.model = Model()
        self.now = 0.0
        self.holds = StoreMeters()
        self.meters = CacheMeters()
        self.store = Store(entries, room, EVER, lambda: self.now, self.holds)
        self.cache = Cache(self.model, self.store, seconds, most, self.meters)
        self.handler = Live(Deadline(self.cache, None))

    def ask(
        self, asked: InferenceRequest | None = None, operation: Operation = Operation.INFER, **given
    ) -> Caller:
        return Caller(self, asked or request(), operation, **given)

    async def finish(self, *callers: Caller) -> None:
        for _ in range(500):
            self.model.open_all()
            for caller in callers:
                if caller.paces is not None:
                    caller.paces.release()
            await turns(3)
            if all(caller.task.done() for caller in callers):
                break
        else:
            pytest.fail("callers still wait")
        await turns(20)
        assert not self.cache._flights
        assert self.model.ended == len(self.model.calls)
        held = [answer.size for answer in self.store._cached.values()]
        assert (self.holds.entries, self.holds.bytes) == (len(held), sum(held))

    @property
    def looked_up(self) -> tuple[int, int, int]:
        return self.meters.misses, self.meters.joined, self.meters.hits


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


KINDS = pytest.mark.parametrize("operation", Operation)


@KINDS
async def test_repeated_request_is_served_from_cache(operation: Operation) -> None:
    stage = Stage()
    for i in range(3):
        caller = stage.ask(request(3.0, f"id {i}"), operation)
        await stage.finish(caller)
        caller.check()
    assert len(stage.model.calls) == 1
    assert stage.looked_up == (1, 0, 2)


@KINDS
async def test_identical_concurrent_requests_are_computed_once(operation: Operation) -> None:
    stage = Stage()
    callers = [stage.ask(request(3.0, f"id {i}"), operation) for i in range(4)]
    await stage.finish(*callers)
    for caller in callers:
        caller.check()
    assert len(stage.model.calls) == 1
    assert stage.looked_up == (1, 3, 0)


async def test_cached_computation_has_no_caller_specific_data() -> None:
    stage = Stage()
    parameters = Parameters(priority=1, timeout=10**6, temperature=0.5, headers={"secret": "1"})
    caller = stage.ask(request(parameters=parameters), deadline=asyncio.get_running_loop().time() + 100)
    await stage.finish(caller)
    seen = stage.model.calls[0]
    assert (dict(seen.headers), seen.deadline) == ({}, None)
    assert dict(seen.request.parameters.headers) == {}
    assert dict(seen.request.parameters.items()) == {"temperature": 0.5}
    assert parameters.get("priority") == 1


@pytest.mark.parametrize(
    "other",
    [
        request(2.0),
        request(name="z"),
        request(datatype="FP64"),
        request(shape=[1, 1]),
        request(parameters=Parameters(temperature=1)),
        request(parameters=Parameters(content_type="np")),
        request(outputs=[RequestOutput(name="y")]),
        InferenceRequest(inputs=[*request().inputs, *request(name="z").inputs]),
    ],
)
async def test_different_requests_are_computed_separately(other: InferenceRequest) -> None:
    stage = Stage()
    callers = [stage.ask(request()), stage.ask(other)]
    await stage.finish(*callers)
    assert stage.looked_up == (2, 0, 0)


async def test_missing_and_empty_strings_have_different_keys() -> None:
    stage = Stage()
    texts = [request(datatype="BYTES", data=data) for data in ([None], [""], ["a"], [b"a"])]
    calls = [stage.cache._lookup(Call(Operation.INFER, "m", None, text, {})) for text in texts]
    running = [asyncio.ensure_future(call) for call in calls]
    await turns()
    assert stage.looked_up == (4, 0, 0)
    for task in running:
        task.cancel()
    await stage.finish(stage.ask(request(3.0)), stage.ask(request(3.0), Operation.STREAM))
    assert stage.meters.misses == 6


async def test_cache_key_ignores_ids_headers_encoding_and_priority() -> None:
    stage = Stage()
    raw = request(data=np.array([1.0], np.float32))
    urgent = request(id="other", parameters=Parameters(priority=1, timeout=5))
    callers = [stage.ask(request()), stage.ask(raw), stage.ask(urgent)]
    await stage.finish(*callers)
    assert stage.looked_up == (1, 2, 0)


async def test_uncacheable_requests_bypass_the_cache() -> None:
    stage = Stage()

    async def later() -> AsyncIterator[InferenceRequest]:
        yield request()

    callers = [
        stage.ask(request(parameters=Parameters(thing=object()))),
        stage.ask(request(2.0), Operation.STREAM, more=later()),
    ]
    await stage.finish(*callers)
    assert stage.looked_up == (0, 0, 0)
    assert [call.request for call in stage.model.calls] == [caller.asked for caller in callers]


async def test_late_reader_gets_past_and_future_items() -> None:
    stage = Stage()
    early = stage.ask(request(5.0), Operation.STREAM)
    await turns()
    stage.model.open(times=2)
    await turns(30)
    assert early.values == [[50.0, 0.0], [50.0, 1.0]]
    late = stage.ask(request(5.0, "late"), Operation.STREAM)
    await turns(30)
    assert late.values == early.values
    await stage.finish(early, late)
    early.check()
    late.check()
    assert len(stage.model.calls) == 1


async def test_model_waits_for_fastest_reader_and_slow_readers_get_all() -> None:
    stage = Stage()
    slow, fast = (stage.ask(request(8.0, name), Operation.STREAM) for name in ("slow", "fast"))
    slow.paces, fast.paces = asyncio.Semaphore(0), asyncio.Semaphore(0)
    await turns()
    stage.model.open_all()
    await turns(50)
    assert stage.model.made == 1
    fast.paces.release()
    await turns(50)
    assert stage.model.made == 2
    assert (len(fast.read), len(slow.read)) == (2, 1)
    await stage.finish(slow, fast)
    slow.check()
    fast.check()


@KINDS
async def test_first_caller_may_leave_a_shared_computation(operation: Operation) -> None:
    stage = Stage()
    first, second = (stage.ask(request(3.0, name), operation) for name in ("a", "b"))
    await turns()
    first.task.cancel()
    await stage.finish(first, second)
    assert first.task.cancelled()
    second.check()
    assert len(second.read) > 0
    assert len(stage.model.calls) == 1


@KINDS
async def test_computation_is_cancelled_when_last_caller_leaves(operation: Operation) -> None:
    stage = Stage()
    callers = [stage.ask(request(3.0), operation) for _ in range(2)]
    await turns()
    for caller in callers:
        caller.task.cancel()
    await turns(30)
    assert stage.model.ended == 1
    assert stage.model.made == 0
    await stage.finish(again := stage.ask(request(3.0), operation))
    again.check()
    assert stage.looked_up == (2, 1, 0)


@pytest.mark.parametrize("late", range(6))
async def test_cancelled_new_computation_leaves_nothing(late: int) -> None:
    stage = Stage()
    caller = stage.ask()
    await turns(late)
    caller.task.cancel()
    await stage.finish(caller)
    assert caller.task.cancelled()
    assert stage.model.made == 0


@KINDS
async def test_deadline_applies_only_to_its_caller(operation: Operation) -> None:
    stage = Stage()
    now = asyncio.get_running_loop().time()
    hasty = stage.ask(request(3.0), operation, deadline=now + 0.01)
    patient = stage.ask(request(3.0), operation)
    with pytest.raises(DeadlineExceeded):
        await hasty.task
    await stage.finish(patient)
    patient.check()
    assert len(stage.model.calls) == 1


@KINDS
async def test_errors_reach_all_waiting_callers_and_are_not_cached(operation: Operation) -> None:
    stage = Stage()
    callers = [stage.ask(request(-2.0, f"id {i}"), operation) for i in range(3)]
    await stage.finish(*callers)
    for caller in callers:
        assert isinstance(caller.task.exception(), ModelError)
        caller.check()
    assert stage.holds.entries == 0
    await stage.finish(stage.ask(request(-2.0), operation))
    assert stage.looked_up == (2, 2, 0)


@KINDS
async def test_callers_per_computation_are_limited(operation: Operation) -> None:
    stage = Stage(most=2)
    callers = [stage.ask(request(3.0), operation) for _ in range(3)]
    await turns()
    assert isinstance(callers[2].task.exception(), Overloaded)
    await stage.finish(*callers)
    assert stage.looked_up == (1, 1, 0)
    assert [len(caller.read) > 0 for caller in callers] == [True, True, False]


async def test_stream_without_items_is_cached() -> None:
    stage = Stage()
    for _ in range(2):
        caller = stage.ask(request(0.0), Operation.STREAM)
        await stage.finish(caller)
        assert caller.read == []
        assert caller.task.exception() is None
    assert stage.looked_up == (1, 0, 1)


async def test_cached_responses_expire() -> None:
    stage = Stage(seconds=10)
    for now, looked_up in ((0, (1, 0, 0)), (9.9, (1, 0, 1)), (10.0, (2, 0, 1)), (19.9, (2, 0, 2))):
        stage.now = now
        await stage.finish(stage.ask())
        assert stage.looked_up == looked_up


async def test_least_recently_used_response_is_evicted() -> None:
    stage = Stage(entries=2)
    for value in (1.0, 2.0, 1.0, 3.0, 1.0, 2.0):
        await stage.finish(stage.ask(request(value)))
    assert stage.looked_up == (4, 0, 2)
    assert (stage.holds.entries, stage.holds.evicted) == (2, 2)


async def test_cache_stays_within_its_byte_limit() -> None:
    stage = Stage(entries=1000, room=10_000)
    for value in range(1, 20):
        await stage.finish(caller := stage.ask(request(float(value))))
        caller.check()
        assert stage.holds.bytes <= 10_000
    assert 1 < stage.holds.entries < 19


async def test_oversized_stream_reaches_current_readers_but_is_not_cached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flight, "WINDOW", 3000)
    stage = Stage(room=12_000)
    slow, fast = (stage.ask(request(12.0, name), Operation.STREAM) for name in ("slow", "fast"))
    slow.paces = asyncio.Semaphore(0)
    await turns()
    stage.model.open_all()
    await turns(200)
    assert len(slow.read) == 1
    assert len(fast.read) < 12, "the slow hold the fast back once nothing more can be kept"
    other = stage.ask(request(12.0, "other"), Operation.STREAM)
    await stage.finish(slow, fast, other)
    for caller in (slow, fast, other):
        caller.check()
        assert len(caller.read) == 12
    assert stage.looked_up == (2, 1, 0)
    assert stage.holds.entries == 0


async def test_fast_reader_continues_when_slow_reader_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "WINDOW", 1000)
    stage = Stage(room=8_000)
    slow, fast = (stage.ask(request(12.0, name), Operation.STREAM) for name in ("slow", "fast"))
    slow.paces = asyncio.Semaphore(0)
    await turns()
    stage.model.open_all()
    await turns(200)
    slow.task.cancel()
    await stage.finish(slow, fast)
    fast.check()
    assert len(fast.read) == 12


async def test_clear_removes_responses_of_one_model() -> None:
    stage = Stage()
    other = Cache(stage.model, stage.store, EVER, 99, CacheMeters())
    await stage.finish(stage.ask())
    asking = asyncio.ensure_future(other(Call(Operation.INFER, "m", None, request(), {})))
    await turns()
    assert len(stage.model.calls) == 2, "what another load of the model has answered is not its answer"
    stage.model.open_all()
    await asking
    stage.cache.clear()
    assert stage.holds.entries == 1


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from([1.0, 2.0, 5.0, -1.0, -3.0]), st.sampled_from(Operation)),
        st.tuples(st.just("cancel"), st.integers(0, 30), st.none()),
        st.tuples(st.just("expire"), st.integers(0, 30), st.none()),
        st.tuples(st.just("open"), st.integers(0, 30), st.none()),
        st.tuples(st.just("read"), st.integers(0, 30), st.none()),
        st.tuples(st.just("turn"), st.integers(1, 9), st.none()),
    ),
    max_size=60,
)


@examples(200)
@given(EVENTS, st.sampled_from([700, 6000, 10**6]), st.integers(1, 3))
def test_every_caller_gets_its_response_or_one_error(events: list, room: int, entries: int) -> None:
    async def play() -> None:
        stage = Stage(entries, room)
        callers: list[Caller] = []
        gone: set[Caller] = set()
        for event, number, operation in events:
            if event == "ask":
                callers.append(stage.ask(request(number, f"id {len(callers)}"), operation))
                callers[-1].paces = asyncio.Semaphore(0)
            elif event == "turn":
                await turns(number)
            elif event == "open" and number < len(stage.model.gates):
                stage.model.open(number)
            elif event in ("cancel", "expire", "read") and number < len(callers):
                caller = callers[number]
                if event == "read":
                    caller.paces.release()
                elif not caller.task.done():
                    gone.add(caller)
                    caller.task.cancel() if event == "cancel" else caller.call.end(DeadlineExceeded())
            assert stage.holds.bytes <= room
        await stage.finish(*callers)
        for caller in callers:
            caller.check()
            if caller not in gone:
                value = caller.asked.inputs[0].data.flat()[0]
                assert isinstance(caller.task.exception(), ModelError) == (value < 0)

    asyncio.run(play())


@pytest.mark.parametrize("expires", [True, False])
async def test_queued_computation_ends_with_reason_of_its_last_caller(expires: bool) -> None:
    queue = QueueMeters()
    store = Store(100, 2**20, EVER, lambda: 0.0, StoreMeters())
    model = Model()
    handler = Live(Cache(Limits(model, Slots(1), 100, 1.0, queue), store, EVER, 100, CacheMeters()))

    calls = [Call(Operation.INFER, "m", None, request(value), {}) for value in (1.0, 2.0)]
    asking = [asyncio.ensure_future(handler(call)) for call in calls]
    while queue.depth < 1:
        await asyncio.sleep(0)
    if expires:
        calls[1].end(DeadlineExceeded())
    else:
        asking[1].cancel()
    while queue.depth:
        await asyncio.sleep(0)
    assert (queue.expired, queue.cancelled) == (int(expires), int(not expires))
    model.open_all()
    await asyncio.wait(asking)
    assert isinstance(asking[1].exception(), DeadlineExceeded) if expires else asking[1].cancelled()


@pytest.mark.parametrize("apart", [False, True])
async def test_responses_are_cached_per_principal(apart: bool) -> None:
    digests = [
        await _digest(Operation.INFER, request(1), principal if apart else None)
        for principal in ("a", "b", "a")
    ]
    assert (digests[0] == digests[1]) is not apart
    assert digests[0] == digests[2]
