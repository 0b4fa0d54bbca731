"""What a key needs to be told of a model."""

import json

import httpx
import pytest

from inferstream import Application
from tests.unit.server.test_actions import CALLERS, app, entry


async def show(application: Application, who: str, model: str) -> int:
    transport = httpx.ASGITransport(application.asgi)
    headers, _ = CALLERS[who]
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        return (await client.post("/api/show", json={"model": model})).status_code


async def test_a_key_without_scopes_is_told_of_its_own_models_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [entry("right", ["infer"], models=["cou*"]), entry("scopeless", [])]
    monkeypatch.setenv("INFERSTREAM_KEYS", json.dumps({"version": 1, "keys": keys}))
    async with Application(app) as application:
        assert await show(application, "without scope", "double") == 200
        assert await show(application, "right", "count") == 200
        assert await show(application, "right", "count:latest") == 200
        assert await show(application, "right", "double") == 403
        assert await show(application, "right", "nothing") == 403
        assert await show(application, "without scope", "nothing") == 404
