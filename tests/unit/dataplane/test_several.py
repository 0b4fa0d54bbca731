"""Several calls as one reply."""

import asyncio

import pytest

from inferstream import InferenceRequest, MLModel
from inferstream.dataplane.call import Operation
from inferstream.dataplane.several import SeveralReplies
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
    admission = app.application.dataplane.admit("Counting")
    calls = [admission.call(Operation.STREAM, each, Headers(())) for each in requests]
    return await SeveralReplies(admission).open(calls)


def model(app):
    return app.application.dataplane._registry.get("Counting").execution._model


async def test_all_responses_of_all_calls_come_each_in_its_order():
    async with run(Counting) as app:
        found = {"a": [], "b": []}
        async with await opened(app, request("a", most=20), request("b", most=2)) as reply:
            async for response in reply:
                found[response.id].append(response.outputs[0].data.flat()[0])
    assert found == {"a": [str(number) for number in range(20)], "b": ["0", "1"]}


async def test_leaving_ends_every_call():
    async with run(Counting) as app:
        async with await opened(app, request("a", most=10**9), request("b", most=10**9)) as reply:
            await anext(reply)
        assert sorted(model(app).closed) == ["a", "b"]


async def test_one_call_can_be_left_alone():
    async with run(Counting) as app:
        async with await opened(app, request("a", most=10**9), request("b", most=3)) as reply:
            seen = []
            async for response in reply:
                seen.append(response.id)
                if seen == ["a"] or (response.id == "a" and "left" not in seen):
                    reply.leave("a")
                    seen.append("left")
        assert seen.count("b") == 3
        assert sorted(model(app).closed) == ["a", "b"]


async def test_a_refusal_of_one_ends_all_before_the_first_response():
    async with run(Counting) as app:
        with pytest.raises(ModelError, match="refused"):
            await opened(app, request("a", most=10**9), request("b", refuse=True))
        assert sorted(model(app).closed) == ["a", "b"]


async def test_a_failure_of_one_is_that_of_all():
    async with run(Counting) as app:
        with pytest.raises(InferenceFailed):
            async with await opened(app, request("a", most=10**9), request("b", fail=True)) as reply:
                async for _ in reply:
                    pass
        assert sorted(model(app).closed) == ["a", "b"]
