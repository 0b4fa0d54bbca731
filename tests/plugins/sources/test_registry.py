"""Layers of a registry whose tokens are for one request each."""

import hashlib
import json
from collections.abc import Callable

import httpx
import pytest

from inferstream.plugins.sources.registry import RegistryImage
from tests.plugins.sources.conftest import Answer, streamed

LAYER = b"0123456789"
DIGEST = f"sha256:{hashlib.sha256(LAYER).hexdigest()}"
MANIFEST = {"layers": [{"digest": DIGEST, "size": len(LAYER)}]}
CHALLENGE = 'Bearer realm="https://login/token",service="registry"'


def test_expired_token_is_renewed_and_layer_continues(answer: Callable[[Answer], None]) -> None:
    tokens: list[str] = []
    used: set[str] = set()

    def served(request: httpx.Request) -> httpx.Response:
        if request.url.host == "login":
            assert request.url.params["scope"] == "repository:team/tree:pull"
            tokens.append(f"Bearer {len(tokens)}")
            return httpx.Response(200, json={"token": str(len(tokens) - 1)})
        token = request.headers.get("authorization", "")
        if token not in tokens or token in used:
            return httpx.Response(401, headers={"www-authenticate": CHALLENGE})
        used.add(token)
        if "/manifests/" in request.url.path:
            return httpx.Response(200, content=json.dumps(MANIFEST).encode())
        start = int(request.headers["range"].removeprefix("bytes=").rstrip("-"))
        return streamed(LAYER[start:], 206)

    answer(served)
    with RegistryImage("oci://registry/team/tree:1") as image:
        [layer] = image.files()
        assert b"".join(image.read(layer, 4)) == LAYER[4:]
        assert b"".join(image.read(layer, 7)) == LAYER[7:]
    assert len(tokens) == 3


def test_refused_login_ends_fetch(answer: Callable[[Answer], None]) -> None:
    asked: list[httpx.URL] = []

    def refused(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        return httpx.Response(401, headers={"www-authenticate": "Basic"})

    answer(refused)
    with RegistryImage("oci://registry/team/tree:1") as image, pytest.raises(httpx.HTTPStatusError):
        image.files()
    assert len(asked) == 2
