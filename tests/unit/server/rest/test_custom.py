"""Requests to models' own routes, and what of their responses is compressed."""

import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.responses import Response

from inferstream import InferenceRequest, InferenceResponse, MLModel, custom_handler
from inferstream.plugins.keys.file import VARIABLE
from tests.asgi import Echo, asking

TEXT = b"text " * 1000


class Routed(MLModel):
    @custom_handler("/own/{name}", "GET")
    async def read(self, name: str) -> str:
        return name

    @custom_handler("/own/{name}", "PUT")
    async def write(self, name: str) -> str:
        return f"wrote {name}"

    @custom_handler("/large", "GET")
    async def large(self, status: int = 200, encoding: str = "") -> Response:
        headers = {"content-encoding": encoding} if encoding else {}
        return Response(TEXT, status, headers)

    @custom_handler("/size")
    async def size(self, payload: dict[str, Any]) -> int:
        return len(payload)

    async def predict(self, payload: InferenceRequest) -> InferenceResponse: ...


async def test_route_matches_method_and_pattern() -> None:
    async with asking(Routed, Echo) as (client, _):
        assert (await client.get("/own/a")).json() == "a"
        assert (await client.put("/own/a")).json() == "wrote a"
        assert (await client.get("/echo/b")).json() == "b"
        refused = await client.post("/own/a")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, PUT, HEAD")
        assert (await client.get("/own/a/b")).status_code == 404


async def test_body_is_not_read_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"version": 1, "keys": []}')
    pieces = iter([b"{}"])

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async with asking(Routed) as (client, _):
        assert (await client.post("/size", content=body())).status_code == 401
    assert [*pieces] == [b"{}"]


async def test_routes_are_added_and_removed_with_their_models() -> None:
    async with asking(Echo, Routed) as (client, application):
        assert (await client.get("/own/a")).status_code == 200
        await application.unload("Routed")
        assert (await client.get("/own/a")).status_code == 404
        assert (await client.get("/echo/a")).status_code == 200


async def test_large_response_is_compressed_if_accepted() -> None:
    async with asking(Routed, gzip_enabled=True) as (client, _):
        packed = await client.get("/large", headers={"accept-encoding": "gzip"})
        assert (packed.headers["content-encoding"], packed.content) == ("gzip", TEXT)
        assert int(packed.headers["content-length"]) < len(TEXT)
        plain = await client.get("/large", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert [each.headers["vary"] for each in (packed, plain)] == ["accept-encoding"] * 2


@pytest.mark.parametrize("query", ["status=206", "encoding=identity"])
async def test_partial_and_encoded_responses_are_not_compressed(query: str) -> None:
    async with asking(Routed, gzip_enabled=True) as (client, _):
        answered = await client.get(f"/large?{query}", headers={"accept-encoding": "gzip"})
        assert "vary" not in answered.headers
        assert answered.headers.get("content-encoding", "identity") == "identity"
        assert answered.content == TEXT


async def test_request_body_is_inflated_within_a_limit() -> None:
    async with asking(Routed, max_body_bytes=100) as (client, _):
        body = gzip.compress(b'{"a": 1, "b": 2}')
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        assert (await client.post("/size", content=body, headers=headers)).json() == 2
        refused = await client.post("/size", content=b" " * 101)
        assert (refused.status_code, "error" in refused.json()) == (413, True)
