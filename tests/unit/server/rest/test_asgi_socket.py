"""WebSockets over ASGI."""

import asyncio
from typing import Any

from inferstream import (
    Application,
)
from tests.asgi import Client, Echo, Message


def socket(**more: Any) -> Message:
    return {"type": "websocket", "path": "/v2/models/Echo/stream", "headers": [], **more}


async def test_refused_websocket_gets_a_response_its_server_supports() -> None:
    application = Application(Echo)
    client = Client({"type": "websocket.connect"})
    await application.asgi(socket(), client.messages.get, client.send)
    assert client.sent == [{"type": "websocket.close"}]
    client = Client({"type": "websocket.connect"})
    scope = socket(extensions={"websocket.http.response": {}})
    await application.asgi(scope, client.messages.get, client.send)
    assert client.sent[0]["status"] == 503
    assert b"has not been started" in client.sent[1]["body"]


async def test_websocket_closes_on_oversized_message() -> None:
    async with Application(Echo, max_body_bytes=100) as application:
        client = Client({"type": "websocket.connect"}, {"type": "websocket.receive", "text": "x" * 101})
        serving = asyncio.create_task(application.asgi(socket(), client.messages.get, client.send))
        async with asyncio.timeout(10):
            while len(client.sent) < 2:
                await asyncio.sleep(0.001)
        assert client.sent[1]["type"] == "websocket.close"
        assert client.sent[1]["code"] == 1009
        assert client.sent[1]["reason"] == "A message may have 100 bytes (setting max_body_bytes)."
        client.messages.put_nowait({"type": "websocket.disconnect", "code": 1009})
        await serving


async def test_websocket_of_nonreading_client_is_paused_and_dropped() -> None:
    async with Application(Echo, stream_stall_timeout=1) as application:
        client = Client({"type": "websocket.connect"})
        for _ in range(10_000):
            client.messages.put_nowait({"type": "websocket.receive", "text": "no request"})
        accepted = False

        async def send(message: Any) -> None:
            nonlocal accepted
            if accepted:
                await asyncio.Event().wait()
            accepted = True

        async with asyncio.timeout(10):
            await application.asgi(socket(), client.messages.get, send)
        assert client.messages.qsize() > 9000
