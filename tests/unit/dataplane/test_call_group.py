"""Several calls as one reply."""

import asyncio
import threading

import pytest

from inferstream import InferenceRequest, MLModel, ModelSettings
from inferstream.dataplane.call import Operation
from inferstream.dataplane.call_group import MAX_CALLS
from inferstream.dataplane.caller import Caller
from inferstream.errors import InferenceFailed, ModelError
from inferstream.testing import run
from inferstream.types import Headers


class Counting(MLModel):
    """Yields numbers; `closed` are the requests whose generator has ended."""

    async def load(self):
        self.closed = []

    async def predict_stream(self, payloads):
        payload = await anext(aiter(payloads))
        asked = payload.parameters
        try:
            if asked.get("refuse"):
                raise ModelError("refused", 418)
            if asked.get("wait"):
                await asyncio.Event().wait()
            for number in range(asked.get("most", 3)):
                yield str(number)
                await asyncio.sleep(0)
            if asked.get("fail"):
                raise RuntimeError
        finally:
            self.closed.append(payload.id)


def request(id, **parameters):
    return InferenceRequest(id=id, inputs=[], parameters=parameters)


async def opened(app, *requests):
    admission = app.application.models.admit("Counting", None, Caller(Headers(()), ""))
    return await admission.group().open(Operation.STREAM, requests)


def model(app):
    return app.application._backend.dataplane._registry.get("Counting").execution._model


async def test_responses_of_each_call_arrive_in_order():
    async with run(Counting) as app:
        found = {"a": [], "b": []}
        async with await opened(app, request("a", most=20), request("b", most=2)) as reply:
            async for response in reply:
                found[response.id].append(response.outputs[0].data.flat()[0])
    assert found == {"a": [str(number) for number in range(20)], "b": ["0", "1"]}


async def test_disconnect_ends_every_call():
    async with run(Counting) as app:
        async with await opened(app, request("a", most=10**9), request("b", most=10**9)) as reply:
            await anext(reply)
        assert sorted(model(app).closed) == ["a", "b"]


async def test_one_call_may_be_closed_separately():
    async with run(Counting) as app:
        async with await opened(app, request("a", most=10**9), request("b", most=3)) as reply:
            seen = []
            async for response in reply:
                seen.append(response.id)
                if seen == ["a"] or (response.id == "a" and "left" not in seen):
                    reply.leave_call("a")
                    seen.append("left")
        assert seen.count("b") == 3
        assert sorted(model(app).closed) == ["a", "b"]


async def test_one_refusal_ends_all_calls_before_first_response():
    settings = ModelSettings(name="Counting", implementation=Counting, loop="server")  # which orders the two
    async with run(Counting(settings)) as app:
        with pytest.raises(ModelError, match="refused"):
            await opened(app, request("a", most=10**9), request("b", refuse=True))
        assert sorted(model(app).closed) == ["a", "b"]


async def test_one_failure_fails_the_group():
    async with run(Counting) as app:
        with pytest.raises(InferenceFailed):
            async with await opened(app, request("a", most=10**9), request("b", fail=True)) as reply:
                async for _ in reply:
                    pass
        assert sorted(model(app).closed) == ["a", "b"]


def counted(app, kind):
    return app.application._backend.dataplane._registry.get("Counting").pipeline.meters.ends.get(kind, 0)


async def test_call_stopped_early_by_client_succeeds():
    async with run(Counting) as app:
        async with await opened(app, request("a", most=10**9), request("b", most=10**9)) as reply:
            await anext(reply)
            reply.leave_call("a")
            await reply.aclose(None)
        assert counted(app, "success") == 2


async def test_abandoned_calls_are_cancelled():
    async with run(Counting) as app:
        async with await opened(app, request("a", most=10**9), request("b", most=10**9)) as reply:
            await anext(reply)
        assert counted(app, "cancelled") == 2


async def test_waiting_calls_do_not_block_reading_of_others():
    counting = Counting(ModelSettings(name="Counting", implementation=Counting, max_concurrency=1))
    async with run(counting) as app:
        async with (
            asyncio.timeout(5),
            await opened(app, request("a", most=50), request("b", most=50)) as reply,
        ):
            assert len([response async for response in reply]) == 100


async def test_first_response_does_not_wait_for_queued_calls():
    class Endless(Counting):
        async def predict_stream(self, payloads):
            yield "first"
            await asyncio.Event().wait()

    endless = Endless(ModelSettings(name="Counting", implementation=Endless, max_concurrency=1))
    async with run(endless) as app:
        async with asyncio.timeout(5), await opened(app, request("a"), request("b")) as reply:
            assert (await anext(reply)).id == "a"


async def test_calls_beyond_queue_limit_start_in_sequence():
    settings = ModelSettings(name="Counting", implementation=Counting, max_concurrency=1, max_queue=MAX_CALLS)
    async with run(Counting(settings)) as app:
        calls = [request(str(number), most=1) for number in range(3 * MAX_CALLS)]
        async with asyncio.timeout(20), await opened(app, *calls) as reply:
            assert len({response.id async for response in reply}) == len(calls)


async def test_model_ignoring_cancellation_does_not_outlive_its_client(monkeypatch):
    monkeypatch.setattr("inferstream.concurrency.scope.PATIENCE", 0.01)
    waiting, ended = threading.Event(), threading.Event()

    class Stubborn(MLModel):
        async def predict_stream(self, payloads):
            yield "a"
            waiting.set()
            for _ in range(2):
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    continue
            ended.set()

    async with run(Stubborn) as app:
        admission = app.application.models.admit("Stubborn", None, Caller(Headers(()), ""))
        both = admission.group().open(Operation.STREAM, [request(id) for id in "ab"])
        async with asyncio.timeout(20), await both as reply:
            await anext(reply)
            assert await asyncio.to_thread(waiting.wait, 20)
        assert await asyncio.to_thread(ended.wait, 20)


async def test_call_failing_early_keeps_its_responses():
    async with run(Counting) as app:
        seen = []
        with pytest.raises(InferenceFailed):
            async with await opened(app, request("a", fail=True), request("b", wait=True)) as reply:
                async for response in reply:
                    seen.append(response.outputs[0].data.flat()[0])
        assert sorted(model(app).closed) == ["a", "b"]
    assert seen == ["0", "1", "2"]
