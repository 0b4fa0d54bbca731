"""Which events of a stream leave together, and when."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from inferstream.concurrency.outgoing import TOGETHER_BYTES, TURN_SECONDS
from inferstream.dataplane.call import Operation
from inferstream.dataplane.reply import StreamReply
from inferstream.errors import ModelError
from inferstream.server.rest.dialects.v2 import V2Request
from inferstream.server.rest.events import EventStream
from inferstream.types import InferenceRequest, InferenceResponse

Model = Callable[[], AsyncIterator[InferenceResponse]]


class Client:
    """An exchange whose client reads, or does not until it is let."""

    left = False

    def __init__(self, reads: asyncio.Event | None = None) -> None:
        self.pieces: list[str] = []
        self._reads = reads

    def open(self, headers: object) -> None:
        """The head leaves with the first piece."""

    def send(self, chunk: bytes, last: bool = False):
        if self._reads is None or self._reads.is_set():
            self.pieces.append(chunk.decode())
            return None
        return self._later(chunk)

    async def _later(self, chunk: bytes) -> None:
        assert self._reads is not None
        await self._reads.wait()
        self.pieces.append(chunk.decode())


class Written:
    """Events that `write` writes, and `closing` at the end."""

    def __init__(self, write: Callable[[InferenceResponse], bytes | None], closing: bytes) -> None:
        self._write = write
        self._closing = closing

    def __call__(self, response: InferenceResponse) -> bytes | None:
        return self._write(response)

    def end(self) -> bytes:
        return self._closing


class Asked(V2Request):
    """A request whose events `write` writes."""

    def __init__(self, write: Callable[[InferenceResponse], bytes | None], closing: bytes = b"") -> None:
        super().__init__(None, Operation.STREAM, InferenceRequest(inputs=[]), None)
        self._events = Written(write, closing)

    def events(self) -> Written:
        return self._events


def response(name: str) -> InferenceResponse:
    return InferenceResponse(model_name="m", id=name, outputs=[])


def event(response: InferenceResponse) -> bytes:
    return f"{response.id} ".encode()


async def streamed(model: Model, client: Client, write=event, closing: bytes = b"") -> None:
    responses = model()
    async with StreamReply(await anext(responses), responses) as reply:
        asked = Asked(write, closing)
        stream = EventStream(client, asked, heartbeat=60, stall=60)
        await stream.run(reply, asked, asked.events(), [])


async def test_first_event_is_sent_alone_and_immediate_ones_together() -> None:
    async def model():
        for name in "abcd":
            yield response(name)

    client = Client()
    await streamed(model, client)
    assert client.pieces[0] == "a "
    assert "".join(client.pieces) == "a b c d "
    assert len(client.pieces) < 4


async def test_pending_events_are_sent_before_the_model_waits() -> None:
    client = Client()
    before: list[str] = []

    async def model():
        for name in "abcd":
            yield response(name)
            if name in "bc":
                await asyncio.sleep(0)
                before.append("".join(client.pieces))

    await streamed(model, client)
    assert before == ["a b ", "a b c "]
    assert "".join(client.pieces) == "a b c d "


async def test_large_output_is_sent_in_chunks() -> None:
    async def model():
        for name in "abcd":
            yield response(name)

    client = Client()
    await streamed(model, client, write=lambda response: b"x" * TOGETHER_BYTES)
    assert len(client.pieces) >= 3


@pytest.mark.parametrize("waits", [False, True])
async def test_nonwaiting_stream_lets_others_run(waits: bool) -> None:
    """One that waits for its model lets them run by that alone: it costs no second turn of the loop."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def model():
        for i in range(20):
            end = time.perf_counter() + 2 * TURN_SECONDS
            while time.perf_counter() < end:
                pass
            if waits:
                await asyncio.sleep(0)
            yield response(str(i))

    task = asyncio.create_task(others())
    await streamed(model, Client())
    task.cancel()
    assert 17 <= turns <= 24


async def test_client_that_does_not_read_pauses_its_model() -> None:
    reads = asyncio.Event()
    client = Client(reads)
    made: list[str] = []

    async def model():
        for name in "abc":
            made.append(name)
            yield response(name)

    task = asyncio.create_task(streamed(model, client))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (made, client.pieces) == (["a"], [])
    reads.set()
    await task
    assert "".join(client.pieces) == "a b c "


async def test_closing_event_is_sent_only_after_success() -> None:
    failing = False

    async def model():
        yield response("a")
        if failing:
            raise ValueError

    client = Client()
    await streamed(model, client, closing=b"[DONE]")
    assert "".join(client.pieces) == "a [DONE]"
    failing = True
    client = Client()
    await streamed(model, client, closing=b"[DONE]")
    assert "[DONE]" not in "".join(client.pieces)


async def test_failure_is_the_last_event() -> None:
    async def model():
        yield response("a")
        raise ValueError("secret")

    client = Client()
    await streamed(model, client)
    assert client.pieces[0] == "a "
    assert client.pieces[-1].startswith("event: error\n")
    assert "secret" not in client.pieces[-1]


async def test_client_with_complete_response_ends_the_model() -> None:
    closed = []

    async def model():
        try:
            for name in "abc":
                yield response(name)
        finally:
            closed.append(True)

    client = Client()
    await streamed(model, client, lambda found: None if found.id == "b" else event(found), b"[DONE]")
    assert "".join(client.pieces) == "a [DONE]"
    assert closed


async def test_response_without_event_sends_nothing() -> None:
    async def model():
        for name in "abc":
            yield response(name)

    client = Client()
    await streamed(model, client, lambda found: b"" if found.id == "b" else event(found))
    assert "".join(client.pieces) == "a c "


async def test_silent_stream_sends_head_and_heartbeats_until_it_ends() -> None:
    client, asked = Client(), Asked(event)
    stream = EventStream(client, asked, heartbeat=0.01, stall=60)
    opening = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(stream.wait(opening, list))
    while len(client.pieces) < 3:
        await asyncio.sleep(0.001)
    assert stream.is_open
    assert {*client.pieces} == {asked.heartbeat.decode()}
    opening.set_result("reply")
    assert await waiting == "reply"
    assert stream._timer is None


@pytest.mark.parametrize("late", [False, True])
async def test_early_error_is_an_event_only_if_the_head_was_sent(late: bool) -> None:
    client, asked = Client(), Asked(event)
    stream = EventStream(client, asked, heartbeat=0.01 if late else 60, stall=60)
    opening = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(stream.wait(opening, list))
    while late and not client.pieces:
        await asyncio.sleep(0.001)
    opening.set_exception(ModelError("no"))
    if not late:
        with pytest.raises(ModelError):
            await waiting
        assert not client.pieces
        return
    assert await waiting is None
    assert "no" in client.pieces[-1]
