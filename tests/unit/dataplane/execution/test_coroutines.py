"""Where a model's coroutines run, and what is done about those that hold the event loop."""

import asyncio
import gc
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from inferstream import MLModel
from inferstream.concurrency.model_thread import ModelThread
from inferstream.context import request_context
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.execution import coroutines
from inferstream.dataplane.execution.local import UNBLOCKED_SLOTS, Local
from inferstream.dataplane.execution.threads import AHEAD
from inferstream.dataplane.reply import Reply
from inferstream.errors import InferenceFailed, InferstreamError
from inferstream.functions.model import resolve_model_class
from inferstream.repository import LoadedModel, load_model, loading
from inferstream.settings import ModelSettings
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput
from inferstream.types.forms import InputsForm

HOME = threading.main_thread().name
AWAY = "model-m"


def here() -> str:
    return threading.current_thread().name


def response(**parameters: object) -> InferenceResponse:
    return InferenceResponse(model_name="m", outputs=[], parameters=parameters)


class Light(MLModel):
    """Never awaits, and takes no time."""

    async def predict(self, payload):
        return response(thread=here())

    async def predict_stream(self, payloads):
        async for _ in payloads:
            for _ in range(16):
                yield response(thread=here())


class Blocking(MLModel):
    """Never awaits, and holds whatever runs it until it is released."""

    def __init__(self, settings):
        super().__init__(settings)
        self.built = here()
        self.began, self.release = threading.Semaphore(0), threading.Semaphore(0)
        self.inside = self.most = 0
        self.ended = threading.Event()

    def block(self):
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.began.release()
        self.release.acquire(timeout=10)
        self.inside -= 1

    async def load(self):
        self.loaded = here()
        return True

    async def unload(self):
        self.unloaded = here()
        return True

    async def predict(self, payload):
        self.block()
        return response(thread=here())

    async def predict_stream(self, payloads):
        try:
            async for payload in payloads:
                yield response(thread=here(), id=payload.id)
                self.block()
                yield response(thread=here(), id=payload.id)
        finally:
            self.cancelled = request_context().cancelled
            self.ended.set()


class Awaiting(MLModel):
    """Awaits, and holds the loop besides where `holds` says so."""

    holds = False

    async def predict(self, payload):
        await asyncio.sleep(0)
        if self.holds:
            time.sleep(2 * coroutines.HEAVY)  # noqa: ASYNC251 - what such models do
        return response(thread=here())

    async def predict_stream(self, payloads):
        async for _ in payloads:
            for _ in range(8):
                await asyncio.sleep(0)
                if self.holds:
                    time.sleep(2 * coroutines.HEAVY)  # noqa: ASYNC251
                yield response(thread=here())


Start = Callable[..., "asyncio.Future[Local]"]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Awaitable[LoadedModel]]:
    """Load a model of this class, which nobody could import."""

    def load(
        implementation: type[MLModel], timeout: float = 10, **settings: object
    ) -> Awaitable[LoadedModel]:
        monkeypatch.setattr(loading, "_resolve_class", lambda _: implementation)
        return load_model(ModelSettings(implementation=implementation, name="m", **settings), timeout)

    return load


@pytest.fixture
async def start(load: Callable[..., Awaitable[LoadedModel]]) -> AsyncIterator[Start]:
    locals: list[Local] = []

    async def start(implementation: type[MLModel], **settings: object) -> Local:
        loaded = await load(implementation, **settings)
        locals.append(Local(loaded.model, None, loaded))
        return locals[-1]

    yield start
    for local in locals:
        await local.unload()


def call(operation: Operation, id: str = "r", more: AsyncIterator[InferenceRequest] | None = None) -> Call:
    tensor = RequestInput(name="x", shape=[1], datatype="FP32", data=[1.0])
    return Call(operation, "m", None, InferenceRequest(id=id, inputs=[tensor]), {}, more)


async def infer(local: Local) -> str:
    reply = await local(call(Operation.INFER))
    return reply.first.parameters.thread


async def stream(local: Local) -> list[str]:
    async with await local(call(Operation.STREAM)) as reply:
        return [item.parameters.thread async for item in reply]


async def acquired(semaphore: threading.Semaphore) -> None:
    assert await asyncio.to_thread(semaphore.acquire, timeout=5)


async def test_class_model_runs_in_its_own_thread(start: Start) -> None:
    local = await start(Blocking)
    model = local._model
    for _ in range(20):
        model.release.release()
    assert model.built == model.loaded == AWAY
    assert {await infer(local) for _ in range(10)} == {AWAY}
    assert await stream(local) == [AWAY, AWAY]
    await local.unload()
    assert model.unloaded == AWAY


async def test_event_loop_stays_responsive_while_coroutine_blocks(start: Start) -> None:
    local = await start(Blocking)
    model = local._model
    calls = [asyncio.ensure_future(infer(local)) for _ in range(4)]
    streams = [asyncio.ensure_future(stream(local)) for _ in range(4)]
    await acquired(model.began)  # and this loop goes on
    for _ in range(8):
        model.release.release()
    assert await asyncio.gather(*calls) == [AWAY] * 4
    assert await asyncio.gather(*streams) == [[AWAY] * 2] * 4
    assert model.most == 1


async def test_cancelled_call_in_model_thread_returns_immediately(start: Start) -> None:
    local = await start(Blocking)
    model = local._model
    waiting = asyncio.ensure_future(infer(local))
    await acquired(model.began)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    model.release.release()


async def test_closing_stream_runs_its_cleanup(start: Start) -> None:
    local = await start(Blocking)
    async with await local(call(Operation.STREAM)) as reply:
        await anext(reply)
        await acquired(local._model.began)
    assert not local._model.ended.is_set()  # it blocks, and nothing can interrupt it
    local._model.release.release()
    assert await asyncio.to_thread(local._model.ended.wait, 5)
    assert local._model.cancelled


async def test_closing_nonblocking_stream_waits_for_cleanup(start: Start) -> None:
    class Ends(MLModel):
        ended = False

        async def load(self):
            return True

        async def predict_stream(self, payloads):
            try:
                while True:
                    yield response()
            finally:
                self.ended = True

    local = await start(Ends)
    async with await local(call(Operation.STREAM)) as reply:
        for _ in range(30):
            await anext(reply)
    assert local._model.ended


async def test_generator_is_throttled_by_its_reader(start: Start) -> None:
    class Counts(MLModel):
        made = 0

        async def load(self):
            return True

        async def predict_stream(self, payloads):
            for _ in range(1000):
                self.made += 1
                yield response()

    local = await start(Counts)
    async with await local(call(Operation.STREAM)) as reply:
        await anext(reply)
        for _ in range(20):
            assert await infer_beside(local) == 1
        assert local._model.made <= AHEAD + 4


async def infer_beside(local: Local) -> int:
    """Something else that runs in the model's thread, so that its generator has had its chance."""
    return await local._thread.call(lambda: 1)


async def test_later_requests_reach_generator_in_model_thread(start: Start) -> None:
    async def more() -> AsyncIterator[InferenceRequest]:
        for id in "bc":
            await asyncio.sleep(0)
            yield call(Operation.STREAM, id).request

    local = await start(Blocking)
    for _ in range(3):
        local._model.release.release()
    async with await local(call(Operation.STREAM, "a", more())) as reply:
        seen = [(item.parameters.id, item.parameters.thread) async for item in reply]
    assert seen == [(id, AWAY) for id in "aabbcc"]


async def test_generator_waiting_for_requests_lets_other_calls_run(start: Start) -> None:
    asked = asyncio.Event()

    async def more() -> AsyncIterator[InferenceRequest]:
        asked.set()
        await asyncio.sleep(60)
        yield call(Operation.STREAM).request

    local = await start(Blocking)
    for _ in range(2):
        local._model.release.release()
    async with await local(call(Operation.STREAM, "a", more())) as reply:
        await anext(reply)
        await anext(reply)
        reading = asyncio.ensure_future(anext(reply))
        await asked.wait()
        assert await infer(local) == AWAY
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert await asyncio.to_thread(local._model.ended.wait, 5)


@pytest.mark.parametrize("operation", Operation)
async def test_exceptions_from_model_thread_are_translated(start: Start, operation: Operation) -> None:
    class Fails(MLModel):
        async def load(self):
            return True

        async def predict(self, payload):
            raise ValueError("no")

        async def predict_stream(self, payloads):
            raise StopIteration
            yield

    local = await start(Fails)
    with pytest.raises(InferenceFailed):
        await local(call(operation))


async def test_metadata_and_custom_routes_run_in_model_thread(start: Start) -> None:
    class Says(Blocking):
        async def metadata(self):
            self.asked = here()
            return await super().metadata()

    local = await start(Says)
    await local.metadata()
    assert local._model.asked == AWAY


async def test_sync_load_does_not_block_the_event_loop(load: Callable) -> None:
    began, release = threading.Event(), threading.Event()

    class Loads(MLModel):
        async def load(self):
            began.set()
            return release.wait(5)

        def predict(self, payload):
            return response()

    ready = asyncio.ensure_future(load(Loads))
    assert await asyncio.to_thread(began.wait, 5)
    release.set()
    loaded = await ready
    assert loaded.thread is not None
    await loaded.unload()


async def test_blocking_load_times_out(load: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    class Loads(Light):
        async def load(self):
            release.wait(10)

    monkeypatch.setattr("inferstream.repository.loading.UNLOAD_LIMIT", 0.01)
    try:
        with pytest.raises(InferstreamError, match=r"did not load within 0\.05 s"):
            await load(Loads, 0.05)
    finally:
        release.set()


class Mixed(Light):
    """A blocking generator beside a coroutine."""

    def predict_stream(self, payloads):
        for _ in payloads:
            yield response(thread=here())
            yield response(thread=here())


class Only(MLModel):
    async def load(self):
        return True

    async def predict(self, payload):
        return response(thread=here())


async def test_blocking_generator_next_to_coroutine_has_its_own_threads(start: Start) -> None:
    local = await start(Mixed)
    for _ in range(3):
        assert [thread.startswith("model-m_") for thread in await stream(local)] == [True] * 2
        await infer(local)


async def test_predict_only_model_streams(start: Start) -> None:
    async def more() -> AsyncIterator[InferenceRequest]:
        yield call(Operation.STREAM).request

    local = await start(Only)
    async with await local(call(Operation.STREAM, "a", more())) as reply:
        assert [item.parameters.thread async for item in reply] == [AWAY] * 2


async def test_tasks_started_in_load_run_until_unload(start: Start) -> None:
    class Bridges(MLModel):
        async def load(self):
            self.loop = asyncio.get_running_loop()
            self.polls = threading.Semaphore(0)
            self.task = asyncio.create_task(self.poll())
            return True

        async def poll(self):
            while True:
                self.polls.release()
                await asyncio.sleep(0.001)

        async def unload(self):
            self.unloaded_in = asyncio.get_running_loop()

        def predict(self, payload):
            called = asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "there"), self.loop)
            return response(thread=called.result(5))

    local = await start(Bridges)
    model = local._model
    for _ in range(3):
        await acquired(model.polls)
    assert await infer(local) == "there"
    await local.unload()
    assert model.unloaded_in is model.loop
    assert await asyncio.to_thread(_closed, model.loop)


def _closed(loop: asyncio.AbstractEventLoop) -> bool:
    for _ in range(500):
        if loop.is_closed():
            return True
        time.sleep(0.01)
    return False


def undocumented(function: Callable) -> Callable:
    async def wrapper(self):
        return await function(self)

    return wrapper


async def test_undocumented_decorator_on_load_is_supported(start: Start) -> None:
    class Decorated(MLModel):
        @undocumented
        async def load(self):
            self.loaded = True

        def predict(self, payload):
            return response(thread=here())

    assert (await start(Decorated))._model.loaded


async def test_load_assigned_on_instance_is_called(start: Start) -> None:
    class Own(MLModel):
        def __init__(self, settings):
            super().__init__(settings)
            self.load = lambda: setattr(self, "loaded", True)

        def predict(self, payload):
            return response(thread=here())

    assert (await start(Own))._model.loaded


class Connects(MLModel):
    """Opens a database where it is needed first, which no other thread may use."""

    async def predict(self, payload):
        if not hasattr(self, "connection"):
            self.connection = sqlite3.connect(":memory:")
        self.connection.execute("select 1")
        return response(thread=here())

    async def unload(self):
        self.connection.close()
        return True


class ConnectsEarly(MLModel):
    def __init__(self, settings):
        super().__init__(settings)
        self.connection = sqlite3.connect(":memory:")

    predict = Connects.predict
    unload = Connects.unload


@pytest.mark.parametrize("model", [Connects, ConnectsEarly])
async def test_thread_bound_objects_stay_in_their_thread(start: Start, model: type[MLModel]) -> None:
    local = await start(model)
    assert {await infer(local) for _ in range(40)} == {AWAY}


async def test_cancelled_unload_closes_the_thread(start: Start) -> None:
    local = await start(Blocking)
    waiting = asyncio.ensure_future(infer(local))
    await acquired(local._model.began)
    waiting.cancel()
    unloading = asyncio.ensure_future(local.unload())
    await asyncio.sleep(0)
    unloading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await unloading
    local._model.release.release()
    await asyncio.to_thread(local._thread._thread.join, 5)
    assert not local._thread._thread.is_alive()


async def test_model_with_invalid_routes_is_unloaded(load: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = await load(Blocking)

    async def loads(*_: object) -> LoadedModel:
        return loaded

    async def refuses(model: MLModel) -> None:
        raise ValueError("no such route")

    monkeypatch.setattr("inferstream.dataplane.execution.local.load_model", loads)
    with pytest.raises(ValueError, match="no such route"):
        await Local.load(loaded.model.settings, 10, refuses)
    assert loaded.model.unloaded == AWAY


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("fails", [False, True])
async def test_no_garbage_is_left_for_the_collector(operation: Operation, fails: bool) -> None:
    class Model(MLModel):
        async def load(self):
            return True

        async def predict(self, payload):
            if fails:
                raise ValueError("no")
            return response()

        async def predict_stream(self, payloads):
            yield response()
            if fails:
                raise ValueError("no")

    model = Model(ModelSettings(implementation=Model, name="m"))
    thread = ModelThread("model-m")
    local = Local(model, None, LoadedModel(model, thread))

    async def ask() -> None:
        try:
            async with await local(call(operation)) as reply:
                async for _ in reply:
                    pass
        except InferstreamError:
            pass

    await ask()
    gc.disable()
    gc.freeze()  # the collector looks at nothing that was there before, here and later
    try:
        await asyncio.create_task(ask())
        await infer_beside(local)
        await asyncio.sleep(0)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        ours = (Call, Reply, InferenceRequest, InferenceResponse, InferstreamError)
        assert Counter(type(left) for left in gc.garbage if isinstance(left, ours)) == {}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        await local.unload()


class Meets(MLModel):
    """Calls that wait for each other."""

    async def load(self):
        self.inside, self.all_in = 0, asyncio.Event()
        return True

    async def predict(self, payload):
        self.inside += 1
        if self.inside == 3:
            self.all_in.set()
        await self.all_in.wait()
        return response(thread=here())


async def test_awaiting_calls_run_concurrently_in_the_model_loop(start: Start) -> None:
    local = await start(Meets)
    assert await asyncio.gather(*(infer(local) for _ in range(3))) == [AWAY] * 3


async def test_call_holds_its_slot_until_first_await(start: Start) -> None:
    local = await start(Meets)
    seen: list[int] = []
    local.slots.watch(seen.append)
    assert local.slots.count == 1
    await asyncio.gather(*(infer(local) for _ in range(3)))
    await infer(local)
    assert seen == [UNBLOCKED_SLOTS]


@pytest.mark.parametrize(
    ("settings", "slots"), [({"max_concurrency": 5}, 5), ({"loop": "server"}, UNBLOCKED_SLOTS)]
)
async def test_configured_slots_do_not_change(start: Start, settings: dict[str, object], slots: int) -> None:
    local = await start(Light, **settings)
    for _ in range(20):
        await infer(local)
    assert local.slots.count == slots


class Predicts(MLModel):
    async def predict(self, payload):
        return response(thread=here())


async def test_light_calls_run_concurrently_until_one_is_heavy(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coroutines, "LIGHT", 60.0)
    monkeypatch.setattr(coroutines, "HEAVY", 60.0)
    local = await start(Predicts)
    counts = []
    for _ in range(coroutines.LIGHT_ENOUGH + 1):
        counts.append(local.slots.count)
        await infer(local)
        await infer_beside(local)
    assert counts == [1] * coroutines.LIGHT_ENOUGH + [coroutines.CROSSING]
    monkeypatch.setattr(coroutines, "HEAVY", -1.0)
    await infer(local)
    await infer_beside(local)
    assert local.slots.count == 1


async def test_class_model_runs_on_server_loop_if_configured(start: Start) -> None:
    local = await start(Awaiting, loop="server")
    assert {await infer(local) for _ in range(coroutines.WATCHED + 1)} == {HOME}
    assert {*await stream(local)} == {HOME}
    assert local._coroutines.predict == local._coroutines._predict  # no longer timed


class Plain(MLModel):
    """Its coroutines name nothing, so none can notice in which task it runs."""

    async def predict(self, payload):
        return payload


class Choosing(Plain):
    """One of its coroutines may notice."""

    plain = True

    def predict(self, payload):
        return super().predict(payload) if self.plain else self.noticing(payload)

    async def noticing(self, payload):
        return asyncio.current_task()


async def add(a: int, b: int = 1) -> int:
    return a + b


@pytest.mark.parametrize(("kind", "is_called"), [(Plain, True), (Choosing, False), (add, True)])
async def test_task_independent_code_is_called_directly(kind: object, is_called: bool) -> None:
    implementation = resolve_model_class(kind, "m")
    model = implementation(ModelSettings(implementation=implementation, name="m"))
    form = InputsForm({"a": "INT64", "b": "INT64"}, ["b"])
    on_loop, request = coroutines.OnLoop(model), InferenceRequest.of_values(form, {"a": 2})
    for _ in range(coroutines.WATCHED):
        assert await on_loop.predict(request) == (3 if kind is add else request)
    assert (on_loop.predict == model.predict) is is_called
    assert await on_loop.predict(request) == (3 if kind is add else request)
    if kind is Choosing:
        model.plain = False
        assert await on_loop.predict(request) is not asyncio.current_task()


@pytest.mark.parametrize("ask", [infer, stream])
async def test_model_blocking_the_server_loop_is_logged_once(
    start: Start, ask: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    local = await start(Awaiting, loop="server")
    local._model.holds = True
    with caplog.at_level(logging.WARNING, "inferstream.model"):
        for _ in range(5):
            await ask(local)
    (warning,) = caplog.records
    assert warning.getMessage().startswith("model m: blocking code held the server's event loop for")
    assert "asyncio.to_thread" in warning.getMessage()


async def test_first_block_of_several_seconds_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    on_loop = coroutines.OnLoop(Light(ModelSettings(implementation=Light, name="m")))
    on_loop._check_duration(0.002)
    assert not caplog.text
    on_loop._check_duration(2.6)
    on_loop._check_duration(2.6)
    assert caplog.text.count("held the server's event loop for 2600 ms") == 1


async def test_thrown_error_reaches_timed_call(start: Start) -> None:
    class Catches(MLModel):
        async def predict(self, payload):
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.caught = True
                raise

    local = await start(Catches, loop="server")
    waiting = asyncio.ensure_future(infer(local))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert local._model.caught
