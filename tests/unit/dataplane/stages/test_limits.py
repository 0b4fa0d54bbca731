"""The queue in front of a model: who runs next, who is refused, and that no slot is ever lost."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.reply import Reply, StreamReply
from inferstream.dataplane.slots import Queue, Slots
from inferstream.dataplane.stages.limits import Limits
from inferstream.dataplane.stages.live import Deadline, Live
from inferstream.errors import DeadlineExceeded, ModelError, Overloaded
from inferstream.telemetry.stages import QueueMeters
from inferstream.types import InferenceRequest, InferenceResponse
from tests.examples import examples


class Model:
    """Answers when the test lets it, as a stream or at once, or fails."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.gates: dict[str, asyncio.Future[None]] = {}
        self.now = self.most = 0

    async def __call__(self, call: Call) -> Reply:
        name = call.request.id
        assert name is not None
        self.ran.append(name)
        gate = self.gates[name] = asyncio.get_running_loop().create_future()
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await gate
        except BaseException:
            self.now -= 1
            raise
        response = InferenceResponse(model_name="m", id=name, outputs=[])
        if call.operation is Operation.INFER:
            self.now -= 1
            return Reply(response)
        return StreamReply(response, self._rest(response))

    async def _rest(self, response: InferenceResponse):
        try:
            yield response
        finally:
            self.now -= 1

    def open(self, name: str, error: Exception | None = None) -> None:
        gate = self.gates[name]
        if not gate.done():
            gate.set_result(None) if error is None else gate.set_exception(error)


class Stage:
    """The stages that end calls, around `Limits`, around a model."""

    def __init__(self, slots: int = 1, length: int = 100, aging: float = 10.0) -> None:
        self.model = Model()
        self.meters = QueueMeters()
        self.limits = Limits(self.model, Slots(slots), length, aging, self.meters)
        self.handler = Live(Deadline(self.limits, None))

    def ask(
        self,
        name: str,
        priority: int = 5,
        deadline: float | None = None,
        operation: Operation = Operation.INFER,
    ) -> asyncio.Task[str]:
        request = InferenceRequest(id=name, inputs=[])
        call = Call(operation, "m", None, request, {}, deadline=deadline, priority=priority)

        async def answer() -> str:
            async with await self.handler(call) as reply:
                ids = [response.id async for response in reply]
                assert ids[0] is not None
                return ids[0]

        return asyncio.create_task(answer())

    async def run_all(self, tasks: list[asyncio.Task[str]]) -> None:
        for _ in range(1000):
            for name in self.model.gates:
                self.model.open(name)
            await turns(2)
            if all(task.done() for task in tasks):
                return
        pytest.fail("calls still wait")

    def check_idle(self, slots: int) -> None:
        assert self.meters.depth == len(self.limits._waiting) == 0
        assert self.limits.free == slots
        assert self.model.now == 0
        assert not self.handler.calls


async def turns(count: int = 8) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_urgent_calls_run_first_in_arrival_order() -> None:
    stage = Stage()
    tasks = [stage.ask("running")]
    await turns()
    tasks += [stage.ask(f"{priority}{i}", priority) for i in "ab" for priority in (5, 9, 1, 5)]
    await turns()
    assert stage.meters.depth == 8
    await stage.run_all(tasks)
    assert stage.model.ran == ["running", "1a", "1b", "5a", "5a", "5b", "5b", "9a", "9b"]
    stage.check_idle(1)


def urgent(priority: int) -> Call:
    return Call(Operation.INFER, "m", None, InferenceRequest(inputs=[]), {}, priority=priority)


def test_aging_follows_the_setting() -> None:
    loop = asyncio.new_event_loop()
    queue = Queue(aging=2.0)
    low, soon, later = (loop.create_future() for _ in range(3))
    queue.add(low, urgent(3), now=100.0)
    queue.add(soon, urgent(1), now=103.9)
    queue.add(later, urgent(1), now=104.1)
    assert [queue.pop() for _ in range(3)] == [soon, low, later]
    assert not queue
    loop.close()


def test_least_urgent_calls_run_under_urgent_load() -> None:
    loop = asyncio.new_event_loop()
    queue = Queue(aging=1.0)
    patient = loop.create_future()
    queue.add(patient, urgent(9), now=0.0)
    overtaken = 0
    while True:
        queue.add(loop.create_future(), urgent(1), now=overtaken * 0.1)
        if queue.pop() is patient:
            break
        overtaken += 1
    assert overtaken == 80 + 1
    loop.close()


def test_priorities_are_ignored_without_aging() -> None:
    loop = asyncio.new_event_loop()
    queue = Queue(aging=0.0)
    found = [loop.create_future() for _ in range(4)]
    for i, turn in enumerate(found):
        queue.add(turn, urgent(9 - i), now=float(i))
    assert [queue.pop() for _ in found] == found
    loop.close()


async def test_full_queue_refuses_immediately() -> None:
    stage = Stage(length=1)
    tasks = [stage.ask("running"), stage.ask("waiting")]
    await turns()
    refused = stage.ask("refused", priority=1)
    await turns()
    with pytest.raises(Overloaded, match="1 calls are waiting"):
        refused.result()
    assert stage.meters.full == 1
    await stage.run_all(tasks)
    assert stage.model.ran == ["running", "waiting"]
    stage.check_idle(1)


async def test_expired_or_cancelled_queued_calls_never_run() -> None:
    stage = Stage()
    running = stage.ask("running")
    now = asyncio.get_running_loop().time()
    expired, cancelled = stage.ask("expired", deadline=now + 0.5), stage.ask("cancelled")
    await turns()
    cancelled.cancel()
    with pytest.raises(DeadlineExceeded):
        await expired
    await stage.run_all([running])
    assert stage.model.ran == ["running"]
    assert (stage.meters.expired, stage.meters.cancelled) == (1, 1)
    stage.check_idle(1)


async def test_calls_expired_while_loop_was_busy_never_run() -> None:
    stage = Stage()
    running = stage.ask("running")
    await turns()
    late = stage.ask("late", deadline=asyncio.get_running_loop().time() + 0.01)
    await turns()
    while asyncio.get_running_loop().time() < stage_deadline(stage, "late"):
        pass  # the loop cannot fire a timer meanwhile
    stage.model.open("running")
    await stage.run_all([running, late])
    with pytest.raises(DeadlineExceeded):
        late.result()
    assert stage.model.ran == ["running"]
    stage.check_idle(1)


def stage_deadline(stage: Stage, name: str) -> float:
    call = next(call for call in stage.handler.calls if call.request.id == name)
    assert call.deadline is not None
    return call.deadline


@pytest.mark.parametrize("late", range(8))
async def test_slot_of_cancelled_call_goes_to_the_next(late: int) -> None:
    stage = Stage()
    running, leaving, staying = stage.ask("running"), stage.ask("leaving"), stage.ask("staying")
    await turns()
    stage.model.open("running")
    await turns(late)
    leaving.cancel()
    await stage.run_all([running, leaving, staying])
    assert [name for name in stage.model.ran if name != "leaving"] == ["running", "staying"]
    stage.check_idle(1)


actions = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(1, 9), st.sampled_from(Operation)),
        st.tuples(st.just("open"), st.integers(0, 30), st.booleans()),
        st.tuples(st.just("cancel"), st.integers(0, 30), st.none()),
        st.tuples(st.just("expire"), st.integers(0, 30), st.none()),
        st.tuples(st.just("turn"), st.integers(1, 3), st.none()),
    ),
    max_size=60,
)


@examples(150)
@given(actions, st.integers(1, 3), st.integers(0, 4))
def test_every_call_ends_once_and_slots_are_conserved(actions: list, slots: int, length: int) -> None:
    async def play() -> Counter:
        stage = Stage(slots, length)
        tasks: list[asyncio.Task[str]] = []
        for action, number, more in actions:
            if action == "ask":
                tasks.append(stage.ask(str(len(tasks)), number, operation=more))
            elif action == "open" and str(number) in stage.model.gates:
                stage.model.open(str(number), ModelError("failed") if more else None)
            elif action == "cancel" and number < len(tasks):
                tasks[number].cancel()
            elif action == "expire":
                for call in list(stage.handler.calls):
                    if call.request.id == str(number):
                        call.end(DeadlineExceeded())
            elif action == "turn":
                await turns(number)
        await stage.run_all(tasks)
        stage.check_idle(slots)
        assert stage.model.most <= slots
        assert len(set(stage.model.ran)) == len(stage.model.ran)
        for name, task in enumerate(tasks):
            if not task.cancelled() and task.exception() is None:
                assert task.result() == str(name)
            elif not task.cancelled() and isinstance(task.exception(), Overloaded):
                assert str(name) not in stage.model.ran
        return Counter(task.cancelled() for task in tasks)

    asyncio.run(play())


async def test_changing_slots_starts_or_holds_waiting_calls() -> None:
    stage = Stage()
    slots = Slots(1)
    stage.limits = Limits(stage.model, slots, 100, 10.0, stage.meters)
    stage.handler = Live(Deadline(stage.limits, None))
    tasks = [stage.ask(name) for name in "abcd"]
    await turns()
    assert stage.model.now == 1
    slots.resize(3)
    await turns()
    assert (stage.model.now, stage.limits.free) == (3, 0)
    slots.resize(1)
    stage.model.open("a")
    await turns()
    assert (stage.model.now, stage.limits.free) == (2, -1)
    await stage.run_all(tasks)
    stage.check_idle(1)
