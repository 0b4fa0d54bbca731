"""Streams that advance together: who is in a step, what each gets, and that every state is released once."""

import asyncio
import gc
import logging
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream import Finished, MLModel, ModelSettings, StepModel
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.execution.threads import AHEAD
from inferstream.errors import (
    DeadlineExceeded,
    Draining,
    InferenceFailed,
    InvalidOutput,
    ModelError,
    StepFailed,
    Unsupported,
)
from inferstream.types import InferenceRequest
from tests.examples import examples
from tests.unit.dataplane.execution.stepping import (
    FAIL,
    FINISH,
    REFUSE,
    Asynchronous,
    Blocking,
    Client,
    Scripted,
    ServedModel,
    item,
    turns,
)

BOTH = pytest.mark.parametrize("implementation", [Asynchronous, Blocking])


@BOTH
async def test_streams_of_any_length_deliver_all_items(implementation: type[Scripted]) -> None:
    served = ServedModel(implementation, max_active=4)
    for count in (1, 5, 3, 40, 0, 2):
        served.ask([1] * count)
    served.ask([0, 3, 0, 0, 2, 1])
    await served.finish()
    for client in served.clients:
        client.check()
        assert client.error is None
    assert max(served.model.sizes) == 4
    assert len(served.model.threads) == 1


async def test_new_streams_join_the_next_step_and_finished_ones_leave() -> None:
    served = ServedModel(Asynchronous)
    first = served.ask([1] * 4)
    await turns()
    await served.tick()
    assert first.items == [0]
    second = served.ask([1] * 2)
    await turns()
    await served.tick()
    assert served.model.sizes == [1, 1], "the step that was under way is not changed"
    await served.tick(2)
    assert served.model.sizes == [1, 1, 2, 2]
    assert second.task.done()
    await served.finish()
    assert first.items == [0, 1, 2, 3]


async def test_freed_slot_is_filled_in_the_next_step() -> None:
    served = ServedModel(Asynchronous, max_active=2)
    long, short, waiting = served.ask([1] * 9), served.ask([1]), served.ask([1] * 2)
    await turns()
    assert (served.steps.active, served.steps.waiting) == (2, 1)
    await served.tick()
    assert (served.steps.active, served.steps.waiting) == (2, 0)
    assert short.task.done()
    await served.tick()
    assert waiting.items == [0]
    assert served.model.sizes == [2, 2]
    await served.finish()
    assert long.items == list(range(9))


@pytest.mark.parametrize(("aging", "second"), [(60.0, "r3"), (0.0, "r1")])
async def test_free_slot_goes_to_the_most_urgent_stream_subject_to_aging(aging: float, second: str) -> None:
    served = ServedModel(Asynchronous, max_active=2, max_concurrency=9, priority_aging=aging)
    for priority in (5, 9, 5, 1):
        served.ask([1, 1, 1], priority=priority)
        await turns()
    assert [state.id for state in served.model.alive] == ["r0"]
    await served.tick()
    assert [state.id for state in served.model.alive] == ["r0", second]
    await served.finish()
    for client in served.clients:
        client.check()


@pytest.mark.parametrize("way", ["leave", "expire"])
async def test_closed_stream_is_released_before_the_next_step(way: str) -> None:
    served = ServedModel(Asynchronous)
    leaving, staying = served.ask([1] * 9), served.ask([1] * 3)
    await turns()
    await served.tick()
    context = served.model.alive[0].context
    assert not context.cancelled
    getattr(leaving, way)()
    await turns()
    assert leaving.task.done(), "it does not wait for the step that is under way"
    assert context.cancelled
    assert served.model.released == 0, "nothing is released during a step"
    assert not context.thread.done(), "a worker says so as long as the model has something of it"
    await served.tick()
    assert served.model.released == 1
    assert context.thread.done()
    await served.tick()
    assert served.model.sizes == [2, 2, 1]
    await served.finish()
    staying.check()
    assert leaving.items == [0]
    if way == "expire":
        assert isinstance(leaving.error, DeadlineExceeded)


async def test_closed_waiting_stream_is_never_admitted() -> None:
    served = ServedModel(Asynchronous, max_active=1)
    first, leaving, last = (served.ask([1] * 2) for _ in range(3))
    await turns()
    leaving.leave()
    await turns()
    assert served.steps.waiting == 1
    await served.finish()
    assert served.model.admitted == 2
    first.check()
    last.check()


@BOTH
async def test_invalid_item_fails_only_its_stream(implementation: type[Scripted]) -> None:
    served = ServedModel(implementation)
    refused, failing = served.ask([1], REFUSE), served.ask([1, 1, 0], FAIL)
    fine = served.ask([1] * 5)
    await served.finish()
    assert isinstance(refused.error, ModelError)
    assert refused.error.status_code == 409
    assert (failing.items, str(failing.error)) == ([0, 1], "no more for r1")
    fine.check()
    assert fine.error is None
    assert served.model.released == 2


@BOTH
@pytest.mark.parametrize(
    "raised", [ValueError("secret"), SystemExit(), StopIteration(), StopAsyncIteration()]
)
async def test_failing_step_ends_only_its_active_streams(
    implementation: type[Scripted], raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    served = ServedModel(implementation)
    served.model.broken = [raised]
    ended = [served.ask([1] * 3) for _ in range(3)]
    await turns()
    await served.tick()
    await asyncio.wait([client.task for client in ended], timeout=10)
    for client in ended:
        assert isinstance(client.error, StepFailed)
        assert "secret" not in client.error.message
    assert [record.levelno for record in caplog.records] == [logging.ERROR], "the log is told once"
    after = served.ask([1] * 3)
    await served.finish()
    after.check()
    assert after.error is None


async def test_model_error_reaches_all_streams_in_the_step() -> None:
    served = ServedModel(Asynchronous)
    served.model.broken = [ModelError("the device is gone", status_code=503)]
    ended = [served.ask([1]) for _ in range(2)]
    await turns()
    await served.finish()
    for client in ended:
        assert client.error.message == "the device is gone"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda emissions: emissions[:-1], StepFailed),
        (lambda emissions: None, StepFailed),
        (lambda emissions: [42] * len(emissions), InvalidOutput),
        (lambda emissions: [[item("x", 0), 0.5]] * len(emissions), InvalidOutput),
        (lambda emissions: [StopAsyncIteration()] * len(emissions), InferenceFailed),
        (lambda emissions: [ValueError("secret")] * len(emissions), InferenceFailed),
    ],
)
async def test_invalid_step_result_is_an_error(answer, error: type[Exception]) -> None:
    served = ServedModel(Asynchronous)
    served.model.answer = answer
    tensor = served.ask([1] * 3), served.ask([1] * 3)
    for client in tensor:
        client.name = "x"
        client.call.request.id = "x"
    await served.finish()
    for client in tensor:
        assert type(client.error) is error
        assert "secret" not in client.error.message


async def test_slow_reader_is_skipped_without_blocking_others() -> None:
    served = ServedModel(Asynchronous)
    slow, fast = served.ask([1] * 40), served.ask([1] * 40)
    slow.pause()
    await turns()
    await served.tick(30)
    assert len(fast.items) == 30
    assert slow.items == [0]
    assert served.model.sizes.count(2) == AHEAD + 1, "it is ahead of its reader by what may wait, and no more"
    slow.resume()
    await turns()
    assert len(slow.items) == AHEAD + 1
    await served.finish()
    slow.check()
    fast.check()


async def test_no_step_runs_until_a_slow_reader_reads() -> None:
    served = ServedModel(Asynchronous)
    served.model.free = True
    slow = served.ask([1] * 40)
    slow.pause()
    await turns(100)
    made = len(served.model.sizes)
    assert made == AHEAD + 1
    await turns(100)
    assert len(served.model.sizes) == made
    await served.finish()
    slow.check()


@pytest.mark.parametrize("plan", [[1], [0, 0, 1], [0, 0]])
async def test_single_item_is_the_unary_response(plan: list[int]) -> None:
    served = ServedModel(Asynchronous)
    client = served.ask(plan, operation=Operation.INFER)
    await served.finish()
    assert client.items == ([0] if sum(plan) else [])
    assert (client.error is None) == bool(sum(plan))


async def test_several_items_for_unary_call_are_refused_and_released() -> None:
    served = ServedModel(Asynchronous)
    client = served.ask([1] * 9, operation=Operation.INFER)
    await turns()
    await served.tick()
    assert served.model.alive[0].context.single
    await served.finish()
    assert isinstance(client.error, Unsupported)
    assert len(served.model.sizes) < 9


async def test_later_requests_are_separate_streams() -> None:
    served = ServedModel(Asynchronous)
    client = served.ask([1, 1])
    requests = [client.call.request.model_copy(deep=True) for _ in range(2)]

    async def more():
        for request in requests:
            yield request

    client.call.more = more()
    await served.finish()
    assert client.items == [0, 1] * 3
    assert served.model.admitted == 3


async def test_unload_releases_active_streams_first() -> None:
    served = ServedModel(Asynchronous)
    client = served.ask([1] * 9)
    await turns()
    await served.tick()
    served.pipeline.live.fail(Draining())
    unloading = asyncio.create_task(served.local.unload())
    await turns()
    assert not unloading.done()
    await served.tick()
    await unloading
    assert isinstance(client.error, Draining)
    await served.settled()


async def test_hung_step_is_abandoned_and_its_states_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inferstream.dataplane.execution.steps.CLOSE_LIMIT", 0.01)
    served = ServedModel(Asynchronous)
    client = served.ask([1] * 9)
    await turns()
    served.pipeline.live.fail(Draining())
    await served.local.unload()
    assert isinstance(client.error, Draining)
    await served.settled()


async def test_stream_closed_during_admission_is_released_without_a_step() -> None:
    served = ServedModel(Asynchronous)
    served.model.admits = False
    leaving, staying = served.ask([1]), served.ask([1])
    await turns()
    leaving.leave()
    await turns()
    assert leaving.task.done()
    served.model.admits = True
    await turns()
    assert (served.model.admitted, served.model.released) == (2, 1)
    await served.finish()
    staying.check()
    assert served.model.sizes == [1]


async def test_unload_ends_waiting_and_admitting_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inferstream.dataplane.execution.steps.CLOSE_LIMIT", 0.01)
    served = ServedModel(Asynchronous, max_active=1)
    served.model.admits = False
    clients = served.ask([1]), served.ask([1])
    await turns()
    await served.local.unload()
    await turns()
    for client in clients:
        assert isinstance(client.error, StepFailed)
        assert "unloaded" in client.error.message
    await served.settled()
    late = served.ask([1])
    await turns()
    assert isinstance(late.error, StepFailed)


async def test_finished_streams_are_freed_without_gc() -> None:
    served = ServedModel(Asynchronous)
    served.ask([1])
    await turns()
    stream = weakref.ref(served.local._steps._active[0])
    state = weakref.ref(served.model.alive[0])
    gc.disable()
    try:
        await served.finish()
        served.clients.clear()
        assert stream() is None
        assert state() is None
    finally:
        gc.enable()


def test_model_has_either_steps_or_a_stream() -> None:
    with pytest.raises(TypeError, match="cannot have a predict_stream"):

        class Two(StepModel):
            async def predict_stream(self, payloads):
                yield None

    with pytest.raises(TypeError, match="step"):
        type("Unfinished", (StepModel,), {"admit": lambda self, request: None})(None)
    assert issubclass(StepModel, MLModel)


async def test_release_is_required_only_with_admitted_state() -> None:
    class Plain(StepModel):
        async def admit(self, request):
            return request

        async def step(self, states):
            return [Finished(item(request.id, 0)) for request in states]

    model = Plain(ModelSettings(implementation=Plain, name="m"))
    local = Local(model)
    request = InferenceRequest(id="r", inputs=[])
    async with await local(Call(Operation.STREAM, "m", None, request, {})) as reply:
        assert [response.id async for response in reply] == ["r"]
    await local.unload()


PLANS = st.lists(st.integers(0, 3), min_size=1, max_size=14)
ARRIVAL = st.tuples(st.just("ask"), PLANS, st.sampled_from([FINISH, FINISH, FINISH, FAIL, REFUSE]))
TICK = st.tuples(st.just("tick"), st.integers(1, 4))
TO_SOMEBODY = st.tuples(st.sampled_from(["leave", "expire", "pause", "resume"]), st.integers(0, 30))
ACTIONS = st.lists(st.one_of(ARRIVAL, ARRIVAL, TICK, TO_SOMEBODY, st.just(("break",))), max_size=40)


async def _play(implementation: type[Scripted], most: int, actions: list[tuple]) -> None:
    served = ServedModel(implementation, max_active=most)
    broken = False
    for action, *arguments in actions:
        if action == "ask":
            served.ask(*arguments)
        elif action == "tick":
            await served.tick(*arguments)
        elif action == "break":
            served.model.broken = [ValueError("broken")]
            broken = True
        elif served.clients:
            client: Client = served.clients[arguments[0] % len(served.clients)]
            getattr(client, action)()
            await turns(arguments[0] % 3)
    await served.finish()
    for client in served.clients:
        client.disturbed |= broken
        client.check()
    assert max(served.model.sizes, default=0) <= most


@pytest.mark.parametrize("implementation", [Asynchronous, Blocking])
@examples(150)
@given(most=st.integers(1, 5), actions=ACTIONS)
def test_every_client_gets_its_items_or_one_error(
    implementation: type[Scripted], most: int, actions: list[tuple]
) -> None:
    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(_play(implementation, most, actions))
    finally:
        logging.disable(logging.NOTSET)


@BOTH
async def test_waiting_for_a_slot_is_measured(
    implementation: type[Scripted],
) -> None:
    alone = ServedModel(implementation, max_active=1)
    alone.ask([1] * 3)
    await alone.finish()
    assert sum(alone.meters.queue.waits.counts) == 0
    served = ServedModel(implementation, max_active=1)
    queue = served.meters.queue
    served.ask([1] * 3)
    served.ask([1] * 3)
    await served.finish()
    assert sum(queue.waits.counts) == 1
    assert queue.waits.total > 0
    assert (queue.cancelled, queue.expired) == (0, 0)


async def test_waiting_behind_a_slow_reader_is_measured() -> None:
    served = ServedModel(Asynchronous, max_active=1)
    served.model.free = True
    slow = served.ask([1] * 100)
    slow.pause()
    await turns(200)
    served.ask([1])
    await turns()
    assert served.steps.waiting == 1
    slow.leave()
    await served.finish()
    assert sum(served.meters.queue.waits.counts) == 1


async def test_joining_during_a_step_counts_as_waiting() -> None:
    served = ServedModel(Asynchronous, max_active=2)
    served.ask([1] * 2)
    await turns()
    served.ask([1] * 2)
    await turns()
    await served.tick()
    assert sum(served.meters.queue.waits.counts) == 1
    await served.finish()


async def test_waiting_streams_count_as_cancelled_or_expired() -> None:
    served = ServedModel(Asynchronous, max_active=1, max_concurrency=3)
    served.ask([1] * 2)
    await turns()
    leaving, late = served.ask([1]), served.ask([1])
    await turns()
    assert served.steps.waiting == 2
    leaving.leave()
    late.expire()
    await turns()
    assert (served.meters.queue.cancelled, served.meters.queue.expired) == (1, 1)
    assert served.meters.ends == {"cancelled": 1, "deadline_exceeded": 1}
    await served.finish()
    assert (served.meters.queue.cancelled, served.meters.queue.expired) == (1, 1)
    assert served.model.admitted == 1
    assert sum(served.meters.queue.waits.counts) == 0


async def test_closed_active_stream_is_not_counted_in_queue() -> None:
    served = ServedModel(Asynchronous, max_active=1)
    client = served.ask([1] * 2)
    await turns()
    client.leave()
    await served.finish()
    assert (served.meters.queue.cancelled, served.meters.queue.expired) == (0, 0)
    assert served.meters.ends == {"cancelled": 1}
