"""An inference over ASGI: its body, its response, and a client that leaves."""

import asyncio
from typing import Any

import pytest

from inferstream.concurrency.scope import ClientLeft
from inferstream.errors import InvalidRequest
from inferstream.protos.json_checks import JsonLimits
from inferstream.server.rest.exchange import AsgiExchange
from inferstream.server.rest.messages import COUNT_ON_ARRIVAL

LIMITS = JsonLimits(2 * COUNT_ON_ARRIVAL, 10, 10)


class Client:
    """Sends messages, and then stays until it leaves."""

    def __init__(self, *messages: dict[str, Any], headers: Any = ()) -> None:
        self._messages = [{"type": "http.request", **message} for message in messages]
        self.leaves = asyncio.Event()
        self.sent: list[Any] = []
        self.scope = {"type": "http", "headers": [*headers], "http_version": "1.1"}

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    def exchange(self) -> AsgiExchange:
        task = asyncio.current_task()
        assert task is not None
        return AsgiExchange(self.scope, self.receive, self.send, task, LIMITS)


async def test_body_in_parts_and_complete_response() -> None:
    client = Client({"body": b"a", "more_body": True}, {"body": b"b"})
    async with client.exchange() as exchange:
        assert await exchange.body(10) == b"ab"
        await exchange.respond(200, [(b"x-a", b"b")], b"ok")
    start, body = client.sent
    assert (start["status"], start["headers"]) == (200, [(b"x-a", b"b"), (b"content-length", b"2")])
    assert body["body"] == b"ok"


async def test_stream_head_is_sent_with_its_first_chunk() -> None:
    client = Client({"body": b""})
    async with client.exchange() as exchange:
        await exchange.body(10)
        exchange.open([(b"x-a", b"b")])
        assert client.sent == []
        await exchange.send(b"one")
        await exchange.send(b"two", last=True)
    assert [message.get("more_body") for message in client.sent] == [None, True, False]


async def test_disconnect_ends_the_task() -> None:
    client = Client({"body": b""})

    async def serve() -> None:
        async with client.exchange() as exchange:
            await exchange.body(10)
            client.leaves.set()
            try:
                await asyncio.Event().wait()
            finally:
                assert exchange.left

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await serve()


async def test_disconnect_within_the_body_is_detected() -> None:
    client = Client({"body": b"a", "more_body": True})
    client.leaves.set()
    async with client.exchange() as exchange:
        with pytest.raises(ClientLeft):
            await exchange.body(10)


async def test_large_json_is_counted_before_it_is_complete() -> None:
    part = {"body": b'"",' * (COUNT_ON_ARRIVAL // 3), "more_body": True}
    client = Client({"body": b"[", "more_body": True}, part, part)
    async with client.exchange() as exchange:
        with pytest.raises(InvalidRequest, match="max_json_values"):
            await exchange.body(3 * COUNT_ON_ARRIVAL)
