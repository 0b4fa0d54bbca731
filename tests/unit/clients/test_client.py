"""What a client repeats, forgets, limits and cancels, over a transport that follows a script."""

import asyncio
import math
from collections.abc import AsyncIterator

import pytest

from inferstream import AsyncClient
from inferstream.errors import CallFailed, CallTimedOut, ConnectionFailed
from tests.client_app import app
from tests.unit.clients.scripted import BUSY, REFUSED, Scripted, number


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferstream.clients.retries.FIRST_PAUSE", 0.001)


def client(transport: Scripted, **options: object) -> AsyncClient:
    found = AsyncClient("http://127.0.0.1:1", **options)
    found._transport = transport
    return found


async def test_metadata_is_fetched_once_per_model_version() -> None:
    transport = Scripted(*map(number, range(12)))
    asking = client(transport)
    found = await asyncio.gather(*(asking.predict("m", a=1) for _ in range(10)))
    assert sorted(found) == list(range(10))
    await asking.predict("m", a=1, version="2")
    await asking.predict("m", {"a": 1}, version="2")
    assert transport.fetched == [("m", None), ("m", "2")]
    assert transport.calls[-1].model == ("m", "2")


async def test_app_types_need_no_metadata() -> None:
    transport = Scripted(number(3))
    assert await client(transport, app=app).predict("add", a=1) == 3
    assert await client(Scripted(number(4)), app="tests.client_app:app").predict("add", a=1) == 4
    assert transport.fetched == []


@pytest.mark.parametrize("failure", [REFUSED, BUSY])
async def test_unstarted_call_is_retried(failure: CallFailed) -> None:
    transport = Scripted(failure, failure, number(1))
    assert await client(transport).predict("m", a=1) == 1
    assert len(transport.calls) == 3
    with pytest.raises(type(failure)):
        await client(Scripted(failure, failure, failure)).predict("m", a=1)
    with pytest.raises(type(failure)):
        await client(Scripted(failure), retries=0).predict("m", a=1)


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionFailed("the connection ended", retryable=True),
        CallFailed("no hint when to call again", retryable=True, status=503),
        CallFailed("wrong", status=500),
        CallTimedOut("late", status=504),
    ],
)
async def test_possibly_started_call_is_not_retried(failure: CallFailed) -> None:
    transport = Scripted(failure, number(1))
    with pytest.raises(type(failure)):
        await client(transport).predict("m", a=1)
    assert len(transport.calls) == 1


async def test_retry_pause_beyond_the_limit_is_skipped() -> None:
    later = CallFailed("full", retryable=True, retry_after=60, status=429)
    with pytest.raises(CallFailed, match="full"):
        await asyncio.wait_for(client(Scripted(later, number(1)), timeout=5).predict("m", a=1), 3)


async def test_call_limit_is_sent_and_enforced() -> None:
    transport = Scripted(number(1), "wait")
    asking = client(transport, timeout=7)
    await asking.predict("m", a=1)
    with pytest.raises(CallTimedOut) as caught:
        await asking.predict("m", a=1, timeout=0.05)
    assert (caught.value.status, caught.value.message) == (504, "no answer within 0.05 s")
    assert isinstance(caught.value, TimeoutError)
    assert 6 < transport.calls[0].timeout <= 7
    assert transport.calls[1].timeout <= 0.05


async def test_call_without_limit() -> None:
    transport = Scripted(number(1), number(1), number(2), None)
    asking = client(transport)
    assert await asking.predict("m", a=1, timeout=math.inf) == 1
    assert [item async for item in asking.stream("m", a=1, timeout=math.inf)] == [1, 2]
    assert transport.calls[0].timeout == math.inf


async def test_stream_is_not_retried_after_its_first_item() -> None:
    transport = Scripted(BUSY, number(1), REFUSED, number(2))
    found = []
    with pytest.raises(ConnectionFailed):
        async for item in client(transport).stream("m", a=1):
            found.append(item)
    assert found == [1]
    assert len(transport.calls) == 2


async def test_call_is_not_retried_after_consuming_a_stream_value() -> None:
    values = iter([1, 2])
    with pytest.raises(CallFailed, match="full"):
        [item async for item in client(Scripted(BUSY, number(1))).stream("m", a=values)]


@pytest.mark.parametrize("how", ["break", "raise", "cancel", "limit"])
async def test_closing_a_stream_closes_the_call(how: str) -> None:
    transport = Scripted(number(1), "wait")
    asking = client(transport)

    async def read() -> None:
        async for _ in asking.stream("m", a=1, timeout=0.2 if how == "limit" else None):
            if how == "break":
                break
            if how == "raise":
                raise KeyError

    reading = asyncio.create_task(read())
    if how == "cancel":
        while not transport.calls:
            await asyncio.sleep(0)
        reading.cancel()
    await asyncio.wait([reading])
    for _ in range(10):
        await asyncio.sleep(0)
    assert transport.closed == 1


async def test_changed_model_works_immediately() -> None:
    old, new = {"a": "INT64"}, {"b": "INT64"}
    transport = Scripted(number(1), number(2), metadata=[old, new])
    asking = client(transport)
    assert await asking.predict("m", a=1) == 1
    assert await asking.predict("m", b=1) == 2  # the argument is not that of the old model
    assert len(transport.fetched) == 2


@pytest.mark.parametrize("status", [400, 404])
async def test_metadata_is_dropped_after_a_refusal(status: int) -> None:
    refusal = CallFailed("no", status=status)
    transport = Scripted(number(1), refusal, number(2), metadata=[{"a": "INT64"}, {"a": "FP64"}])
    asking = client(transport)
    assert await asking.predict("m", a=1) == 1
    assert await asking.predict("m", a=1) == 2
    assert [call.request.inputs[0].datatype for call in transport.calls] == ["INT64", "INT64", "FP64"]


async def test_refusal_by_unchanged_model_is_final() -> None:
    transport = Scripted(number(1), CallFailed("no", status=400), number(2))
    asking = client(transport)
    await asking.predict("m", a=1)
    with pytest.raises(CallFailed, match="no"):
        await asking.predict("m", a=1)
    assert len(transport.calls) == 2


async def test_headers_and_parameters_are_sent() -> None:
    transport = Scripted(number(1))
    asking = client(transport, headers={"x-a": "1", "x-b": "1"})
    await asking.predict("m", a=1, headers={"x-b": "2"}, parameters={"max_tokens": 3})
    assert transport.calls[0].headers == {"accept-encoding": "identity", "x-a": "1", "x-b": "2"}
    assert transport.calls[0].request.parameters.get("max_tokens") == 3


async def test_arguments_named_like_options_are_passed_in_a_mapping() -> None:
    transport = Scripted(number(1), metadata=[{"timeout": "INT64", "model": "INT64"}])
    assert await client(transport).predict("m", {"timeout": 1}, model=2) == 1


async def test_server_metadata_and_models() -> None:
    asking = client(Scripted())
    assert await asking.models() == ["a", "b"]
    assert await asking.ready()
    assert not await asking.ready("b")
    assert (await asking.metadata("m")).inputs[0].name == "a"


async def test_predict_returns_the_only_item_of_a_stream() -> None:
    async def values() -> AsyncIterator[int]:
        yield 1

    assert await client(Scripted(number(6), None)).predict("m", a=values()) == 6
    with pytest.raises(CallFailed, match="more than one item"):
        await client(Scripted(number(1), number(2), None)).predict("m", a=values())
    with pytest.raises(CallFailed, match="no item"):
        await client(Scripted(None)).predict("m", a=values())


def test_unsupported_url_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="ftp://x is no URL of a server"):
        AsyncClient("ftp://x")
