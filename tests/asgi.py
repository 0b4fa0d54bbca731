"""An application as an ASGI server meets it: scopes, and the other end of a request."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from inferstream import (
    Application,
    InferenceRequest,
    InferenceResponse,
    MLModel,
    ModelSettings,
    custom_handler,
)

Message = dict[str, Any]
BODY = json.dumps({"inputs": [{"name": "x", "shape": [1], "datatype": "INT64", "data": [1]}]}).encode()


class Echo(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.encode_response(["here"])

    @custom_handler(rest_path="/echo/{what}", rest_method="GET")
    async def echo(self, what: str) -> str:
        return what


class Waiting(MLModel):
    """Waits for good, and says when it has begun and how it ended."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        raise AssertionError


def waiting() -> Waiting:
    return Waiting(ModelSettings(implementation=Waiting, name="waiting"))


def http(path: str, body: bytes = BODY, method: str = "POST", **more: Any) -> Message:
    headers = [(b"content-length", b"%d" % len(body)), *more.pop("headers", [])]
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": headers,
        **more,
    }


class Client:
    """The other end: what it receives is kept, and it leaves when told."""

    def __init__(self, *messages: Message) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        for message in messages:
            self.messages.put_nowait(message)
        self.sent: list[Message] = []

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def ask(self, app: Any, scope: Message) -> tuple[int, bytes]:
        await app(scope, self.messages.get, self.send)
        return self.sent[0]["status"], b"".join(part.get("body", b"") for part in self.sent[1:])


def request(body: bytes = BODY) -> Message:
    return {"type": "http.request", "body": body, "more_body": False}


@asynccontextmanager
async def asking(*served: Any, **settings: Any) -> AsyncIterator[tuple[httpx.AsyncClient, Application]]:
    """A client of an application with these models, and the application."""
    async with Application([*served], **settings) as application:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client, application
