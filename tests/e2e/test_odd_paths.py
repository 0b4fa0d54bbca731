"""Paths written in odd ways, with keys: none leads around the check of a route, and each has one meaning everywhere."""

import json
import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from inferstream.keys.file import VARIABLE
from inferstream.keys.secret import digest_of, new_key
from tests.serving import Running, eventually, write_model

CODE = """
from inferstream import MLModel, custom_handler


def shout(prompt: str) -> str:
    return prompt.upper()


class Own(MLModel):
    @custom_handler("/own/item/{name}", rest_method="GET")
    async def item(self, name: str) -> str:
        return name

    @custom_handler("/own/sum")
    async def sum(self) -> int:
        return 3
"""

FULL, LIMITED = new_key("full"), new_key("limited")
SCOPES = ["infer", "stream", "repository", "metrics"]
KEYS = {
    "version": 1,
    "keys": [
        {"id": id, "principal": id, "sha256": digest_of(key).hex(), "scopes": scopes, "models": models}
        for id, key, scopes, models in (
            ("full", FULL, SCOPES, ["*"]),
            ("limited", LIMITED, ["infer"], ["other"]),
        )
    ],
}

ROUTES = {
    "/v2/models/shout/generate": b'{"prompt": "a"}',
    "/v2/models/shout/generate_stream": b'{"prompt": "a"}',
    "/v1/models/shout:predict": b'{"instances": ["a"]}',
    "/v1/completions": b'{"model": "shout", "prompt": "a"}',
    "/v2/repository/index": b"{}",
    "/v2/models/shout": b"",
    "/v2/models/shout/stream": b"",
    "/metrics": b"",
    "/own/item/x": b"",
    "/own/sum": b"{}",
}
"""Routes that need a key, by their body; those without one are read."""

SAME = ("{}", "{}/", "{}///", "{}%2F", "{}?a=/v2/health/live", "http://localhost{}", "{last}")
"""Ways to write a path that mean the path."""

OTHER = (
    *("/{}", "//localhost{}", "/.{}", "/v2/health/live/../../..{}", "/v2/health/live/%2e%2e/%2e%2e/%2e%2e{}"),
    *("/v2/health/live;{}", "/v2/health/live%3f{}", "/v2/health/live%00{}", "{}%00", "{}%0d%0a", "{upper}"),
    *("{}/.", "{}/..", "{}%20", "{slash}", "/%2f{rest}", "{double}", "{backslash}", "http://localhost/{}"),
)
"""Ways to write another path."""


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("odd") / "models"
    write_model(folder, "shout", "shout_code.shout", CODE, name="shout")
    write_model(folder, "own", "own_code.Own", CODE, name="own")
    running = Running(folder, **{VARIABLE: json.dumps(KEYS)})
    eventually(lambda: httpx.get(f"{running.url}/v2/health/ready").status_code == 200)
    yield running
    running.stop()


def written(way: str, path: str) -> str:
    start, _, end = path.rpartition("/")
    return way.format(
        path,
        last=f"{path[:-1]}%{ord(path[-1]):02x}",
        upper=path.upper(),
        slash=f"{start}//{end}",
        rest=path[1:],
        double=f"{path[:-1]}%25{ord(path[-1]):02x}",
        backslash=f"{start}\\{end}",
    )


def status(served: Running, path: str, body: bytes, key: str) -> int:
    """The status of one request, as it is written."""
    method = "POST" if body else "GET"
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"Content-Length: {len(body)}"] * bool(body) + [f"Authorization: Bearer {key}"] * bool(key)
    with socket.create_connection(("127.0.0.1", served.http_port), timeout=20) as opened:
        opened.sendall("\r\n".join((*lines, "", "")).encode() + body)
        received = b""
        while piece := opened.recv(65536):
            received += piece
    found = re.match(rb"HTTP/1.1 (\d+) ", received)
    assert found is not None, received
    return int(found[1])


@pytest.mark.parametrize("way", [*SAME, *OTHER])
def test_no_way_leads_around_the_check(served: Running, way: str) -> None:
    for path, body in ROUTES.items():
        odd = written(way, path)
        unknown, limited, full = (status(served, odd, body, key) for key in ("", LIMITED, FULL))
        if way in SAME:
            expected = 426 if path.endswith("/stream") else 200
            assert (unknown, limited, full) == (401, 403, expected), odd
        else:
            assert unknown in (400, 401, 404), odd
            assert limited in (400, 403, 404), odd
            assert full in (400, 404, 426) or path.startswith("/own/item/"), odd
