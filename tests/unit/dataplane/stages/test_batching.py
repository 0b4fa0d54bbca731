"""The batching stage around a handler that the test controls: who leaves when, with whom, and with what answer."""

import asyncio
import gc
import re
import weakref
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.dataplane.call import Call, Handler, Operation
from inferstream.dataplane.checks import choose_checks
from inferstream.dataplane.reply import Reply
from inferstream.dataplane.slots import Slots
from inferstream.dataplane.stages.batching import Batching, admission_limit
from inferstream.dataplane.stages.limits import Limits
from inferstream.errors import (
    DeadlineExceeded,
    InferenceFailed,
    InferstreamError,
    InvalidOutput,
    InvalidRequest,
    ModelError,
    WorkerLost,
)
from inferstream.rows import RowErrors
from inferstream.signature import Signature
from inferstream.telemetry.stages import BatchMeters, QueueMeters
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, RequestInput, ResponseOutput
from tests.examples import examples

NEVER = 3600.0
POISON = -1.0


class Model:
    """Doubles each row once the test lets it; fails for a batch that holds poison."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.gates: list[asyncio.Future[None]] = []
        self.cancelled = 0
        self.most = self.now = 0
        self.error: Callable[[], Exception] = lambda: ModelError("poison")
        self.names_rows = False
        self.shape: list[int] | None = None

    @property
    def sizes(self) -> list[int]:
        return [call.request.inputs[0].shape[0] for call in self.calls]

    async def __call__(self, call: Call) -> Reply:
        gate = asyncio.get_running_loop().create_future()
        self.calls.append(call)
        self.gates.append(gate)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await gate
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1
        tensor = call.request.inputs[0]
        values = tensor.data.flat()
        if POISON in values and not self.names_rows:
            raise self.error()
        output = ResponseOutput(
            name="y",
            shape=self.shape or tensor.shape,
            datatype="FP32",
            data=[value * 2 for value in values],
        )
        response = InferenceResponse(model_name="m", id=call.request.id, outputs=[output])
        if POISON in values:
            raise RowErrors({i: "poison" for i, value in enumerate(values) if value == POISON}, response)
        return Reply(response)

    def open(self, index: int) -> None:
        if not self.gates[index].done():
            self.gates[index].set_result(None)

    def open_all(self) -> None:
        for index in range(len(self.gates)):
            self.open(index)


class Caller:
    """One request on its way through the stage."""

    def __init__(
        self,
        stage: Batching,
        values: list[float],
        key: int = 0,
        deadline: float | None = None,
        operation: Operation = Operation.INFER,
    ) -> None:
        tensor = RequestInput(name="x", shape=[len(values)], datatype="FP32", data=list(values))
        request = InferenceRequest(id=f"id {values}", inputs=[tensor], parameters=Parameters(key=key))
        self.values = values
        self.call = Call(operation, "m", None, request, {"caller": str(values)}, deadline=deadline)
        self.task = asyncio.ensure_future(self._answer(stage))

    async def _answer(self, stage: Batching) -> InferenceResponse | None:
        async with await stage(self.call) as reply:
            return reply.first

    def check(self) -> None:
        """It has its own rows under its own id."""
        response = self.task.result()
        assert response.id == self.call.request.id
        assert response.outputs[0].shape == [len(self.values)]
        assert response.outputs[0].data.peek() == [value * 2 for value in self.values]


def around(
    model: Handler,
    size: int = 4,
    wait: float = NEVER,
    slots: int = 2,
    queue: QueueMeters | None = None,
    rows: int = 0,
) -> Batching:
    checks = choose_checks(Signature(), "declared")
    return Batching(model, checks, Slots(slots), size, wait, BatchMeters(), queue, rows)


async def turns(count: int = 10) -> None:
    """Let everything that can happen now happen."""
    for _ in range(count):
        await asyncio.sleep(0)


async def finish(model: Model, callers: list[Caller]) -> None:
    """Open every gate until all callers have ended, in a bounded number of turns of the loop."""
    for _ in range(200):
        model.open_all()
        await turns(2)
        if all(caller.task.done() for caller in callers):
            return
    pytest.fail(f"still waiting: {[caller.values for caller in callers if not caller.task.done()]}")


async def emptied(stage: Batching) -> None:
    """The stage keeps nothing of what is over."""
    await turns()
    assert not stage._pending
    assert not stage._ready
    assert not stage._tasks
    assert stage._running == 0


async def test_single_request_runs_immediately_and_unchanged() -> None:
    stage = around(model := Model())
    caller = Caller(stage, [1.0])
    await turns()
    assert model.calls == [caller.call]
    await finish(model, [caller])
    caller.check()
    await emptied(stage)


async def test_requests_gather_while_a_batch_runs() -> None:
    stage = around(model := Model())
    found = [Caller(stage, [float(i)]) for i in range(3)]
    await turns()
    assert model.sizes == [1]
    model.open(0)
    await turns()
    assert model.sizes == [1, 2]
    await finish(model, found)
    for caller in found:
        caller.check()
    await emptied(stage)


async def test_full_batch_runs_immediately() -> None:
    stage = around(model := Model())
    found = [Caller(stage, [float(i), 0.5]) for i in range(7)]
    await turns()
    assert model.sizes == [2, 8]
    await finish(model, found)
    assert model.sizes == [2, 8, 4]
    for caller in found:
        caller.check()
    await emptied(stage)


async def test_batch_runs_after_its_first_member_waited_max_batch_time() -> None:
    stage = around(model := Model(), wait=0.001)
    found = [Caller(stage, [float(i)]) for i in range(3)]
    while len(model.calls) < 2:
        await asyncio.sleep(0)
    assert model.sizes == [1, 2]
    await finish(model, found)
    await emptied(stage)


async def test_batches_are_limited_by_slots_and_queues_take_turns() -> None:
    stage = around(model := Model(), slots=1, size=2)
    found = [Caller(stage, [float(i)], key=i % 2) for i in range(8)]
    await turns()
    assert model.sizes == [1]
    await finish(model, found)
    assert model.most == 1
    assert sum(model.sizes) == 8
    for caller in found:
        caller.check()
    await emptied(stage)


async def test_batch_has_its_own_id_no_headers_and_the_latest_deadline() -> None:
    stage = around(model := Model())
    found = [Caller(stage, [float(i)], deadline=100.0 + i) for i in range(3)]
    await turns()
    model.open(0)
    await turns()
    batch = model.calls[1]
    assert batch.deadline == 102.0
    assert batch.headers == {}
    assert batch.request.id not in {caller.call.request.id for caller in found}
    await finish(model, found)


async def test_batch_with_member_without_deadline_has_none() -> None:
    stage = around(model := Model())
    found = [Caller(stage, [float(i)], deadline=None if i == 1 else 100.0) for i in range(3)]
    await turns()
    model.open(0)
    await turns()
    assert model.calls[1].deadline is None
    await finish(model, found)


async def test_cancelled_member_is_not_in_the_batch() -> None:
    stage = around(model := Model())
    first, left, stays = (Caller(stage, [float(i)]) for i in range(3))
    await turns()
    left.task.cancel()
    await turns()
    await finish(model, [first, left, stays])
    assert model.sizes == [1, 1]
    stays.check()
    await emptied(stage)


async def test_cancelled_member_of_running_batch_does_not_affect_others() -> None:
    stage = around(model := Model())
    found = [Caller(stage, [float(i)]) for i in range(4)]
    await turns()
    model.open(0)
    await turns()
    found[1].task.cancel()
    await turns()
    assert model.cancelled == 0
    await finish(model, found)
    assert found[1].task.cancelled()
    for caller in (found[0], *found[2:]):
        caller.check()
    await emptied(stage)


async def test_batch_is_cancelled_when_all_members_leave() -> None:
    stage = around(model := Model())
    found = [Caller(stage, [float(i)]) for i in range(3)]
    await turns()
    model.open(0)
    await turns()
    for caller in found[1:]:
        caller.task.cancel()
    await turns()
    assert model.cancelled == 1
    await emptied(stage)


async def test_queue_is_removed_when_all_members_leave() -> None:
    stage = around(model := Model(), slots=1)
    running, waiting = Caller(stage, [1.0]), Caller(stage, [2.0], key=1)
    await turns()
    waiting.task.cancel()
    await turns()
    assert len(stage._pending) == 1
    await finish(model, [running])
    await emptied(stage)
    assert len(model.calls) == 1


@pytest.mark.parametrize(
    "error",
    [lambda: ModelError("poison", 503), lambda: InferenceFailed("raised"), lambda: InvalidRequest("bad")],
)
async def test_only_the_invalid_member_fails(error: Callable[[], Exception]) -> None:
    stage = around(model := Model(), size=8)
    model.error = error
    found = [Caller(stage, [POISON if i == 5 else float(i)]) for i in range(9)]
    await finish(model, found)
    assert isinstance(found[5].task.exception(), type(error()))
    for caller in found[:5] + found[6:]:
        caller.check()
    assert model.sizes == [1, 8, 4, 4, 2, 1, 1, 2], "halves, and halves of those that fail"
    await emptied(stage)


@pytest.mark.parametrize("error", [WorkerLost("gone"), DeadlineExceeded()])
async def test_unrelated_errors_are_not_retried(error: InferstreamError) -> None:
    stage = around(model := Model())
    model.error = lambda: error
    found = [Caller(stage, [value]) for value in (0.0, 1.0, POISON)]
    await finish(model, found)
    assert model.sizes == [1, 2]
    found[0].check()
    assert [caller.task.exception() for caller in found[1:]] == [error, error]
    await emptied(stage)


async def test_batch_with_row_errors_is_not_run_again() -> None:
    stage = around(model := Model(), size=8)
    model.names_rows = True
    found = [Caller(stage, values) for values in ([0.0], [1.0, 2.0], [3.0, POISON], [4.0], [POISON])]
    await finish(model, found)
    assert model.sizes == [1, 6]
    for caller in found:
        if POISON in caller.values:
            assert isinstance(caller.task.exception(), ModelError)
            assert str(caller.task.exception()) == "poison"
        else:
            caller.check()
    await emptied(stage)


@pytest.mark.parametrize("late", range(8))
async def test_member_cancelled_as_previous_batch_ends_keeps_no_slot(late: int) -> None:
    stage = around(model := Model(), slots=1)
    first, leaving = Caller(stage, [0.0]), Caller(stage, [1.0])
    await turns()
    model.open(0)
    await turns(late)
    leaving.task.cancel()
    after = Caller(stage, [2.0])
    await finish(model, [first, leaving, after])
    first.check()
    after.check()
    await emptied(stage)


async def test_unsplittable_output_is_an_error_for_each_member() -> None:
    stage = around(model := Model())
    found = [Caller(stage, [float(i)]) for i in range(3)]
    await turns()
    model.open(0)
    await turns()
    model.shape = [1, 2]
    await finish(model, found)
    for caller in found[1:]:
        assert isinstance(caller.task.exception(), InvalidOutput)
        assert re.search(r'output "y" of shape \[1, 2\] to a batch of 2 rows', str(caller.task.exception()))
    await emptied(stage)


async def test_unexpected_error_is_reported_without_details(caplog: pytest.LogCaptureFixture) -> None:
    stage = around(model := Model())
    model.error = lambda: KeyError("secret")
    found = [Caller(stage, [value]) for value in (0.0, POISON, 1.0)]
    await finish(model, found)
    for caller in found[1:]:
        assert isinstance(caller.task.exception(), InferenceFailed)
        assert "secret" not in str(caller.task.exception())
    assert "secret" in caplog.text
    await emptied(stage)


async def test_batches_leave_no_garbage() -> None:
    gc.disable()
    try:
        stage = around(model := Model())
        found = [Caller(stage, [float(i)]) for i in range(3)]
        await finish(model, found)
        await emptied(stage)
        members = [weakref.ref(caller.call.request) for caller in found[1:]]
        found.clear()
        assert [member() for member in members] == [None, None]
    finally:
        gc.enable()


async def test_streams_are_not_batched() -> None:
    stage = around(model := Model())
    found = [Caller(stage, [float(i)], operation=Operation.STREAM) for i in range(3)]
    await turns()
    assert model.calls == [caller.call for caller in found]
    await finish(model, found)


async def test_batch_sizes_waits_and_depths_are_counted() -> None:
    stage = around(model := Model())
    found = [Caller(stage, [float(i)]) for i in range(4)]
    await finish(model, found)
    meters = stage._meters
    assert (sum(meters.sizes.counts), meters.sizes.total) == (2, 4)
    assert sum(meters.waits.counts) == 4
    assert (sum(meters.depths.counts), meters.depths.total) == (3, 1 + 2 + 3)


@pytest.mark.parametrize(
    ("slots", "size", "expected"),
    [(1, 64, 128), (64, 64, 4096), (4096, 64, 4096), (200, 2, 402), (1, 8192, 16384), (8192, 2, 8192)],
)
def test_queue_admits_enough_callers_to_fill_the_batches(slots: int, size: int, expected: int) -> None:
    assert admission_limit(slots, size) == expected


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(0, 2), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("open"), st.integers(0, 30)),
        st.tuples(st.just("turn"), st.integers(1, 5)),
    ),
    max_size=60,
)


@examples(200)
@given(
    EVENTS,
    st.integers(2, 5),
    st.integers(1, 3),
    st.sampled_from([1e-9, NEVER]),
    st.sampled_from([lambda: ModelError("poison"), lambda: WorkerLost("gone"), None]),
)
def test_every_caller_gets_its_response_or_one_error(
    events: list, size: int, slots: int, wait: float, error: Callable[[], Exception] | None
) -> None:
    async def play() -> None:
        stage = around(model := Model(), size, wait, slots)
        model.error, model.names_rows = error or model.error, error is None
        found: list[Caller] = []
        cancelled: set[Caller] = set()
        for event in events:
            match event:
                case ("come", key, rows, bad):
                    values = [float(len(found) * 10 + row) for row in range(rows)]
                    found.append(Caller(stage, [POISON, *values] if bad else values, key))
                case ("cancel", index) if index < len(found) and not found[index].task.done():
                    found[index].task.cancel()
                    cancelled.add(found[index])
                case ("open", index) if index < len(model.gates):
                    model.open(index)
                case ("turn", count):
                    await turns(count)
            assert model.now <= slots
        await finish(model, found)
        for call in model.calls:
            members = {int(value) // 10 for value in call.request.inputs[0].data.flat() if value != POISON}
            key = call.request.parameters.get("key")
            assert {found[member].call.request.parameters.get("key") for member in members} == {key}
        for caller in found:
            if caller in cancelled:
                assert caller.task.cancelled() or caller.task.done()
            elif POISON in caller.values:
                assert isinstance(caller.task.exception(), (ModelError, WorkerLost))
            elif isinstance(caller.task.exception(), WorkerLost):
                assert error is not None
                assert isinstance(error(), WorkerLost)
            else:
                caller.check()
        assert model.most <= slots
        await emptied(stage)

    asyncio.run(play())


async def test_queue_metrics_count_members_that_leave_before_execution() -> None:
    queue = QueueMeters()
    stage = around(model := Model(), slots=1, queue=queue)
    found = [Caller(stage, [float(i)]) for i in range(4)]
    await turns()
    found[1].task.cancel()
    found[2].call.expired = True
    found[2].task.cancel()
    await turns()
    assert (queue.cancelled, queue.expired) == (1, 1)
    found.append(Caller(stage, [4.0]))
    await turns()
    model.open(0)
    await turns()
    assert model.sizes == [1, 2]
    found[3].task.cancel()
    await finish(model, found)
    assert (queue.cancelled, queue.expired) == (1, 1)
    await emptied(stage)


async def test_each_member_of_a_waiting_batch_is_counted_when_it_leaves() -> None:
    queue = QueueMeters()
    limits = Limits(model := Model(), Slots(1), 100, 1.0, queue)
    stage = around(limits, size=2, slots=2, queue=queue)
    found = [Caller(stage, [0.0]), *(Caller(stage, [float(i)]) for i in (1, 2))]
    await turns()
    assert model.sizes == [1]
    assert queue.depth == 1
    found[1].task.cancel()
    await turns()
    assert queue.cancelled == 1
    found[2].task.cancel()
    await finish(model, found)
    assert (queue.cancelled, queue.expired, queue.depth) == (2, 0, 0)
    assert model.sizes == [1]
    await emptied(stage)


async def test_members_have_their_own_wait_and_that_of_their_batch() -> None:
    limits = Limits(model := Model(), Slots(1), 100, 1.0, QueueMeters())
    stage = around(limits, size=2, slots=2)
    alone, *members = callers = [Caller(stage, [float(i)]) for i in range(3)]
    await turns()
    await finish(model, callers)
    assert (alone.call.waited, alone.call.batch_wait) == (0, 0)
    assert all(member.call.batch_wait > 0 for member in members)
    assert members[0].call.waited == members[1].call.waited > 0
    await emptied(stage)


async def test_batch_rows_are_limited_by_the_model() -> None:
    model = Model()
    stage = around(model, size=8, slots=1, rows=5)
    callers = [Caller(stage, [float(index)] * rows) for index, rows in enumerate((1, 2, 3, 1, 5, 4, 2, 6, 1))]
    await turns()
    await finish(model, callers)
    for caller in callers:
        caller.check()
    assert model.sizes == [1, 5, 1, 5, 4, 2, 6, 1]
    await emptied(stage)


async def test_batch_runs_when_its_rows_are_full() -> None:
    model = Model()
    stage = around(model, size=8, slots=2, rows=5)
    callers = [Caller(stage, [0.0]), Caller(stage, [1.0, 2.0]), Caller(stage, [3.0, 4.0])]
    await turns()
    assert model.sizes == [1]
    callers.append(Caller(stage, [5.0]))
    await turns()
    assert model.sizes == [1, 5]
    await finish(model, callers)
    await emptied(stage)
