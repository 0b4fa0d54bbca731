"""An application with models for calls of JSON-RPC."""

from collections.abc import AsyncIterator

import httpx
import pytest

from inferstream import Application, MLModel
from tests.plugins.agents.calling import Served


@pytest.fixture
async def served() -> AsyncIterator[tuple[Served, httpx.AsyncClient]]:
    found = Served()

    class Undeclared(MLModel):
        async def predict(self, payload): ...

    application = Application([found.app, Undeclared], max_body_bytes=100_000)
    transport = httpx.ASGITransport(application.asgi)
    async with application, httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield found, client
