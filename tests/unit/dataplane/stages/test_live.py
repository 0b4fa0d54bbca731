"""A call in progress can be ended from outside while it opens, and so can other work of a model."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from inferstream import Application, InferenceRequest, InferenceResponse, MLModel, ModelSettings, Settings
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.reply import Reply, StreamReply
from inferstream.dataplane.stages import live
from inferstream.dataplane.stages.live import Live, time_limit
from inferstream.errors import Cancelled, DeadlineExceeded, Draining
from inferstream.repository import InMemoryRepository
from inferstream.types import Headers

RESPONSE = InferenceResponse(model_name="m", outputs=[])


def call() -> Call:
    return Call(Operation.STREAM, "m", None, InferenceRequest(inputs=[]), {})


async def forever(_: Call) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError


async def opening(live: Live, opened: Call) -> asyncio.Task[Reply]:
    async def open() -> Reply:
        return await live(opened)

    task = asyncio.create_task(open())
    await asyncio.sleep(0)
    assert live.calls == {opened}
    return task


async def test_opened_call_ends_with_the_reason() -> None:
    live, opened = Live(forever), call()
    task = await opening(live, opened)
    opened.end(DeadlineExceeded())
    opened.end(Draining())
    with pytest.raises(DeadlineExceeded):
        await task
    assert opened.expired
    assert not task.cancelling()
    assert not live.calls


async def test_simultaneous_task_cancellation_is_not_lost() -> None:
    live, opened = Live(forever), call()
    task = await opening(live, opened)
    opened.end(DeadlineExceeded())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not live.calls


async def test_stream_opened_after_end_is_closed() -> None:
    closed = False

    async def rest() -> AsyncIterator[InferenceResponse]:
        nonlocal closed
        try:
            while True:
                yield RESPONSE
        finally:
            closed = True

    async def swallows(_: Call) -> Reply:
        responses = rest()
        first = await anext(responses)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return StreamReply(first, responses)

    live, opened = Live(swallows), call()
    task = await opening(live, opened)
    opened.end(Cancelled())
    with pytest.raises(Cancelled):
        await task
    assert closed
    assert not task.cancelling()
    assert not live.calls


async def test_end_before_the_stage_is_remembered() -> None:
    async def answers(_: Call) -> Reply:
        return Reply(RESPONSE)

    opened = call()
    opened.end(Cancelled())
    with pytest.raises(Cancelled):
        await Live(answers)(opened)


async def test_other_work_ends_with_the_reason() -> None:
    live = Live(forever)
    task = asyncio.create_task(live.run(asyncio.Event().wait()))
    await asyncio.sleep(0)
    live.fail(Draining())
    with pytest.raises(Draining):
        await task
    assert not task.cancelling()
    assert not live.calls


DEFAULT = 0.1


class Impatient(Settings):
    request_timeout: float | None = DEFAULT


class Waits(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        await asyncio.sleep(4 * DEFAULT)
        return self.encode_response(["waited"])


async def infer(server: Settings, dialect: str = "", **settings: object) -> InferenceResponse | None:
    """The response of a model with these settings to a call of a dialect."""
    model = ModelSettings(name="waits", implementation=Waits, **settings)
    application = Application(server, repository=InMemoryRepository([model]))
    async with application:
        admission = application.models.admit("waits", None, Caller(Headers(()), dialect))
        async with await admission.open(Operation.INFER, InferenceRequest(inputs=[])) as reply:
            return reply.first


async def test_default_time_limit_ends_unary_calls() -> None:
    with pytest.raises(DeadlineExceeded):
        await infer(Impatient())


@pytest.mark.parametrize(
    ("server", "dialect", "settings"),
    [
        (Impatient(), "queue", {}),
        (Impatient(cache_enabled=True), "queue", {"cache_enabled": True}),
        (Impatient(), "", {"request_timeout": None}),
        (Impatient(), "", {"request_timeout": 30}),
        (Impatient(request_timeout=0), "", {}),
        (Impatient(request_timeout=None), "", {}),
    ],
)
async def test_default_time_limit_excludes_plugin_transports_and_explicit_settings(
    server: Settings, dialect: str, settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "DOORS", {"queue"})
    assert await infer(server, dialect, **settings) is not None


@pytest.mark.parametrize(
    ("server", "model", "limit"),
    [
        ({}, {}, None),
        ({"request_timeout": 2}, {}, 2),
        ({"request_timeout": 2}, {"request_timeout": 1}, 1),
        ({"request_timeout": 2}, {"request_timeout": None}, None),
        ({"request_timeout": 2}, {"request_timeout": 0}, None),
        ({"request_timeout": None}, {"request_timeout": 1}, 1),
        ({"request_timeout": 0}, {}, None),
    ],
)
def test_model_time_limit_overrides_server_time_limit(
    server: dict[str, object], model: dict[str, object], limit: float | None
) -> None:
    assert Settings().request_timeout == 300
    assert time_limit(ModelSettings(implementation=Waits, **model), Settings(**server)) == limit


@pytest.mark.parametrize("settings", [Settings, ModelSettings])
def test_negative_time_limit_is_refused(settings: type[Settings | ModelSettings]) -> None:
    with pytest.raises(ValueError, match="request_timeout"):
        settings(implementation="a.B", request_timeout=-1)


async def test_watching_stops_if_a_model_has_no_calls() -> None:
    async def answer(_: Call) -> Reply:
        return Reply(RESPONSE)

    live = Live(answer, 60.0)
    await live(call())
    assert not live._unwatched
    live._check_limits()
    assert live._unwatched
