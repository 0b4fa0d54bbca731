"""Calls of JSON-RPC, and the models that they are for."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from inferstream import App, ModelError


class Served:
    """An app, and what its models have noted."""

    def __init__(self) -> None:
        self.app = App()
        self.running = self.most = 0
        self.ran: list[Any] = []
        self.closed = asyncio.Event()

        @self.app.model
        async def subtract(minuend: int, subtrahend: int) -> int:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.001)
            self.running -= 1
            self.ran.append(minuend)
            return minuend - subtrahend

        @self.app.model
        async def count(n: int, fail: bool = False) -> AsyncIterator[int]:
            try:
                for i in range(n):
                    yield i
                if fail:
                    raise ModelError("after all", 418)
            finally:
                self.closed.set()

        @self.app.model("predict.odd", version="2")
        def odd(text: str) -> str:
            if text == "fail":
                raise RuntimeError("secret")
            return text


def call(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    document = {"jsonrpc": "2.0", "method": method, **more}
    return document if params is None else {**document, "params": params}


async def post(client: httpx.AsyncClient, document: Any, path: str = "/rpc") -> Any:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    response = await client.post(path, content=body)
    assert response.status_code == 200, response.text
    return response.json() if response.content else None
