"""What a client repeats, forgets, limits and cancels, over a transport that follows a script."""

import asyncio
import math
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from inferstream import AsyncClient, Client
from inferstream.clients.transport import ModelName, OutgoingCall
from inferstream.errors import CallFailed, CallTimedOut, ConnectionFailed
from inferstream.types import (
    InferenceResponse,
    MetadataModelResponse,
    RepositoryIndexResponse,
    ResponseOutput,
)
from tests.client_app import app

REFUSED = ConnectionFailed("no connection", retryable=True, unreachable=True)
BUSY = CallFailed("full", retryable=True, retry_after=0.01, status=429)


def declared(**datatypes: str) -> list[dict]:
    return [{"name": name, "datatype": kind, "shape": [1]} for name, kind in datatypes.items()]


def number(value: int) -> InferenceResponse:
    output = ResponseOutput(name="output", datatype="INT64", shape=[1], data=[value])
    return InferenceResponse(model_name="m", outputs=[output])


class Scripted:
    """Does the next thing of its script at each call: raises it, waits forever, or gives it."""

    def __init__(self, *script: object, metadata: list[dict[str, str]] | None = None) -> None:
        self.script = [*script]
        self.described = metadata or [{"a": "INT64"}]
        self.calls: list[OutgoingCall] = []
        self.fetched: list[ModelName] = []
        self.closed = 0

    async def infer(self, call: OutgoingCall) -> InferenceResponse:
        self.calls.append(call)
        return await self.next()

    async def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        self.calls.append(call)
        try:
            while self.script:
                if (response := await self.next()) is None:
                    return
                yield response
                if call.more is not None:
                    await anext(call.more, None)
        finally:
            self.closed += 1

    async def next(self) -> InferenceResponse:
        item = self.script.pop(0)
        if isinstance(item, Exception):
            raise item
        if item == "wait":
            await asyncio.Event().wait()
        return item

    async def metadata(self, model: ModelName, timeout: float) -> MetadataModelResponse:
        self.fetched.append(model)
        datatypes = self.described.pop(0) if len(self.described) > 1 else self.described[0]
        fields = {
            "name": "m",
            "platform": "",
            "inputs": declared(**datatypes),
            "outputs": declared(output="INT64"),
        }
        return MetadataModelResponse.model_validate(fields)

    async def index(self, timeout: float) -> RepositoryIndexResponse:
        items = [{"name": name, "state": "READY", "reason": ""} for name in ("b", "a", "b")]
        return RepositoryIndexResponse.model_validate(items)

    async def ready(self, model: ModelName | None, timeout: float) -> bool:
        return model is None or model.name == "a"

    async def aclose(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferstream.clients.retries.FIRST_PAUSE", 0.001)


def client(transport: Scripted, **options: object) -> AsyncClient:
    found = AsyncClient("http://127.0.0.1:1", **options)
    found._transport = transport
    return found


async def test_metadata_are_fetched_once_for_each_model_and_version() -> None:
    transport = Scripted(*map(number, range(12)))
    asking = client(transport)
    found = await asyncio.gather(*(asking.predict("m", a=1) for _ in range(10)))
    assert sorted(found) == list(range(10))
    await asking.predict("m", a=1, version="2")
    await asking.predict("m", {"a": 1}, version="2")
    assert transport.fetched == [("m", None), ("m", "2")]
    assert transport.calls[-1].model == ("m", "2")


async def test_types_of_an_app_need_no_metadata() -> None:
    transport = Scripted(number(3))
    assert await client(transport, app=app).predict("add", a=1) == 3
    assert await client(Scripted(number(4)), app="tests.client_app:app").predict("add", a=1) == 4
    assert transport.fetched == []


@pytest.mark.parametrize("failure", [REFUSED, BUSY])
async def test_what_has_not_begun_is_repeated(failure: CallFailed) -> None:
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
async def test_what_may_have_begun_is_not_repeated(failure: CallFailed) -> None:
    transport = Scripted(failure, number(1))
    with pytest.raises(type(failure)):
        await client(transport).predict("m", a=1)
    assert len(transport.calls) == 1


async def test_a_pause_that_would_pass_the_limit_is_not_made() -> None:
    later = CallFailed("full", retryable=True, retry_after=60, status=429)
    with pytest.raises(CallFailed, match="full"):
        await asyncio.wait_for(client(Scripted(later, number(1)), timeout=5).predict("m", a=1), 3)


async def test_the_limit_of_a_call_is_told_and_kept() -> None:
    transport = Scripted(number(1), "wait")
    asking = client(transport, timeout=7)
    await asking.predict("m", a=1)
    with pytest.raises(CallTimedOut) as caught:
        await asking.predict("m", a=1, timeout=0.05)
    assert (caught.value.status, caught.value.message) == (504, "no answer within 0.05 s")
    assert isinstance(caught.value, TimeoutError)
    assert 6 < transport.calls[0].timeout <= 7
    assert transport.calls[1].timeout <= 0.05


async def test_no_limit() -> None:
    transport = Scripted(number(1), number(1), number(2), None)
    asking = client(transport)
    assert await asking.predict("m", a=1, timeout=math.inf) == 1
    assert [item async for item in asking.stream("m", a=1, timeout=math.inf)] == [1, 2]
    assert transport.calls[0].timeout == math.inf


async def test_a_stream_is_not_repeated_after_its_first_item() -> None:
    transport = Scripted(BUSY, number(1), REFUSED, number(2))
    found = []
    with pytest.raises(ConnectionFailed):
        async for item in client(transport).stream("m", a=1):
            found.append(item)
    assert found == [1]
    assert len(transport.calls) == 2


async def test_a_call_that_has_taken_a_value_of_a_stream_is_not_repeated() -> None:
    values = iter([1, 2])
    with pytest.raises(CallFailed, match="full"):
        [item async for item in client(Scripted(BUSY, number(1))).stream("m", a=values)]


@pytest.mark.parametrize("how", ["break", "raise", "cancel", "limit"])
async def test_leaving_a_stream_closes_it(how: str) -> None:
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


async def test_a_model_that_has_changed_works_at_once() -> None:
    old, new = {"a": "INT64"}, {"b": "INT64"}
    transport = Scripted(number(1), number(2), metadata=[old, new])
    asking = client(transport)
    assert await asking.predict("m", a=1) == 1
    assert await asking.predict("m", b=1) == 2  # the argument is not that of the old model
    assert len(transport.fetched) == 2


@pytest.mark.parametrize("status", [400, 404])
async def test_metadata_are_forgotten_when_the_server_refuses(status: int) -> None:
    refusal = CallFailed("no", status=status)
    transport = Scripted(number(1), refusal, number(2), metadata=[{"a": "INT64"}, {"a": "FP64"}])
    asking = client(transport)
    assert await asking.predict("m", a=1) == 1
    assert await asking.predict("m", a=1) == 2
    assert [call.request.inputs[0].datatype for call in transport.calls] == ["INT64", "INT64", "FP64"]


async def test_a_refusal_by_an_unchanged_model_is_final() -> None:
    transport = Scripted(number(1), CallFailed("no", status=400), number(2))
    asking = client(transport)
    await asking.predict("m", a=1)
    with pytest.raises(CallFailed, match="no"):
        await asking.predict("m", a=1)
    assert len(transport.calls) == 2


async def test_headers_and_parameters_go_with_the_call() -> None:
    transport = Scripted(number(1))
    asking = client(transport, headers={"x-a": "1", "x-b": "1"})
    await asking.predict("m", a=1, headers={"x-b": "2"}, parameters={"max_tokens": 3})
    assert transport.calls[0].headers == {"accept-encoding": "identity", "x-a": "1", "x-b": "2"}
    assert transport.calls[0].request.parameters.get("max_tokens") == 3


async def test_arguments_with_the_names_of_options_are_given_in_a_mapping() -> None:
    transport = Scripted(number(1), metadata=[{"timeout": "INT64", "model": "INT64"}])
    assert await client(transport).predict("m", {"timeout": 1}, model=2) == 1


async def test_what_a_server_has() -> None:
    asking = client(Scripted())
    assert await asking.models() == ["a", "b"]
    assert await asking.ready()
    assert not await asking.ready("b")
    assert (await asking.metadata("m")).inputs[0].name == "a"


async def test_predict_takes_the_only_item_of_a_stream() -> None:
    async def values() -> AsyncIterator[int]:
        yield 1

    assert await client(Scripted(number(6), None)).predict("m", a=values()) == 6
    with pytest.raises(CallFailed, match="more than one item"):
        await client(Scripted(number(1), number(2), None)).predict("m", a=values())
    with pytest.raises(CallFailed, match="no item"):
        await client(Scripted(None)).predict("m", a=values())


def test_an_url_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="ftp://x is no URL of a server"):
        AsyncClient("ftp://x")


def blocking(transport: Scripted) -> Client:
    found = Client("http://127.0.0.1:1")
    found._client._transport = transport
    return found


def test_the_blocking_client_does_the_same() -> None:
    transport = Scripted(number(1), number(2), number(3), None)
    with blocking(transport) as asking:
        assert asking.predict("m", a=1) == 1
        assert list(asking.stream("m", a=iter([1, 2, 3]))) == [2, 3]
        assert asking.models() == ["a", "b"]
        assert asking.ready("a")
        assert asking.metadata("m").name == "m"
    assert transport.closed == 2  # the stream and the client


def test_leaving_a_blocking_stream_closes_it() -> None:
    transport = Scripted(number(1), "wait")
    for item in blocking(transport).stream("m", a=1):
        assert item == 1
        break
    assert transport.closed == 1


def test_threads_share_a_blocking_client() -> None:
    transport = Scripted(*map(number, range(200)))
    asking = blocking(transport)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.extend(asking.predict("m", a=1) for _ in range(25)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(found) == list(range(200))
    assert len(transport.fetched) == 1


def test_a_blocking_iterator_that_fails_ends_the_call_with_its_error() -> None:
    def values():
        yield 1
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        list(blocking(Scripted(number(1), number(2), number(3))).stream("m", a=values()))


def test_a_forked_process_makes_clients_of_its_own() -> None:
    """A fork has no thread with an event loop, and would wait for it forever."""
    code = (
        "import os\n"
        "from tests.unit.clients.test_client import Scripted, blocking, number\n"
        "assert blocking(Scripted(number(1))).predict('m', a=1) == 1\n"
        "if os.fork() == 0:\n"
        "    os._exit(blocking(Scripted(number(7))).predict('m', a=1))\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "7\n", ran.stderr
