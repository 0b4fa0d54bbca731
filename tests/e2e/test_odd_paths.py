"""Paths written in odd ways, with keys: none leads around the check of a route, and each has one meaning everywhere."""

import json
import re
import socket
from collections.abc import Iterator, Mapping

import h2.config
import h2.connection
import h2.events
import httpx
import pytest

from inferstream.plugins.keys.file import VARIABLE
from inferstream.plugins.keys.secret import hash_key, new_key
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
        {"id": id, "principal": id, "sha256": hash_key(key).hex(), "scopes": scopes, "models": models}
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
    running = Running(folder, "--one-port", **{VARIABLE: json.dumps(KEYS)})
    eventually(lambda: httpx.get(f"{running.url}/v2/health/ready").status_code == 200)
    yield running
    running.stop()


CLOSE = {"connection": "close"}


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


def status(served: Running, path: str, body: bytes, key: str, headers: Mapping[str, str] = CLOSE) -> int:
    """The status of one request, as it is written."""
    method = "POST" if body else "GET"
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}"] * bool(body) + [f"Authorization: Bearer {key}"] * bool(key)
    with socket.create_connection(("127.0.0.1", served.http_port), timeout=20) as opened:
        opened.sendall("\r\n".join((*lines, "", "")).encode() + body)
        received = b""
        while b"\r\n\r\n" not in received and (piece := opened.recv(65536)):
            received += piece
    found = re.match(rb"HTTP/1.1 (\d+) ", received)
    assert found is not None, received
    return int(found[1])


class Http2:
    """A connection that sends paths as they are written."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        options = {"validate_outbound_headers": False, "normalize_outbound_headers": False}
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8", **options)
        self.connection = h2.connection.H2Connection(config)
        self.connection.initiate_connection()

    def status(self, path: str, body: bytes, key: str, **more: str) -> tuple[int, str]:
        """The status of a request, and that of gRPC."""
        stream = self.connection.get_next_available_stream_id()
        head = {":method": "POST" if body else "GET", ":scheme": "http", ":authority": "localhost"}
        head |= {":path": path} | {name.replace("_", "-"): value for name, value in more.items()}
        head |= {"authorization": f"Bearer {key}"} if key else {}
        self.connection.send_headers(stream, list(head.items()), end_stream=not body)
        if body:
            self.connection.send_data(stream, body, end_stream=True)
        received: dict[str, str] = {}
        while True:
            self.socket.sendall(self.connection.data_to_send())
            for event in self.connection.receive_data(self.socket.recv(65536)):
                if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                    received |= dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    self.connection.acknowledge_received_data(event.flow_controlled_length, stream)
                elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                    return int(received[":status"]), received.get("grpc-status", "")


@pytest.fixture
def http2(served: Running) -> Iterator[Http2]:
    client = Http2(served.http_port)
    yield client
    client.socket.close()


KEYS_SENT = ("", LIMITED, FULL)
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.parametrize("way", [*SAME, *OTHER])
def test_odd_paths_do_not_bypass_the_check(served: Running, http2: Http2, way: str) -> None:
    for path, body in ROUTES.items():
        odd = written(way, path)
        unknown, limited, full = found = [status(served, odd, body, key) for key in KEYS_SENT]
        assert [http2.status(odd, body, key)[0] for key in KEYS_SENT] == found, odd
        if way in SAME:
            expected = 426 if path.endswith("/stream") else 200
            assert (unknown, limited, full) == (401, 403, expected), odd
        else:
            assert unknown in (400, 401, 404), odd
            assert limited in (400, 403, 404), odd
            assert full in (400, 404, 426) or path.startswith("/own/item/"), odd


def test_upgrades_do_not_bypass_the_check(served: Running) -> None:
    for way in (*SAME, *OTHER):
        odd = written(way, "/v2/models/shout/stream")
        found = [status(served, odd, b"", key, UPGRADE) for key in KEYS_SENT]
        if way in SAME and not way.startswith("http"):  # no client upgrades with an absolute target
            assert found == [401, 403, 101], odd
        else:
            assert {*found} <= {400, 401, 403, 404}, odd


def test_odd_paths_are_not_rpcs(http2: Http2) -> None:
    for way in OTHER:
        odd = written(way, "/inference.GRPCInferenceService/ServerReady")
        for key in KEYS_SENT:
            found = http2.status(odd, bytes(5), key, content_type="application/grpc", te="trailers")
            assert found == (200, "12"), (odd, key)
