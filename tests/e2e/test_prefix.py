"""A server below `root_path`: each route with the prefix, as a proxy passes it on, and without, as a proxy strips it."""

import json
import socket
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from inferstream import Client
from inferstream.plugins.keys.file import VARIABLE
from inferstream.protos.dataplane_pb2 import ModelInferRequest
from tests.grpc_web import BINARY, framed, headers_of
from tests.serving import Running, eventually, write_model

CODE = """
from collections.abc import Iterator

from fastapi import Request

from inferstream import MLModel, custom_handler


def shout(prompt: str) -> str:
    return prompt.upper()


def words(prompt: str) -> Iterator[str]:
    yield from prompt.split()


class Routes(MLModel):
    @custom_handler("/own/{name}", rest_method="GET")
    async def own(self, name: str, request: Request) -> dict[str, str]:
        return {"name": name, "path": request.url.path}
"""

PREFIX = "/ml/v1"
KEYS = '{"version": 1, "keys": []}'

ROUTES = {
    "/": None,
    "/v2": None,
    "/v2/": None,
    "/v2/health/ready": None,
    "/metrics": None,
    "/docs": None,
    "/page/page.js": None,
    "/inferstream.js": None,
    "/proto": None,
    "/v2/docs/dataplane.json": None,
    "/v2/models/shout/docs/dataplane.json": None,
    "/v1/models": None,
    "/own/a%20b": None,
    "/own/ä": None,
    "/v2/models/shout/generate": {"prompt": "a"},
    "/v2/models/words/generate_stream": {"prompt": "a b"},
    "/v1/models/shout:predict": {"instances": ["a"]},
    "/v1/completions": {"model": "shout", "prompt": "a"},
    "/rpc": {"jsonrpc": "2.0", "id": 1, "method": "shout", "params": {"prompt": "a"}},
    "/nowhere": None,
}


@pytest.fixture(scope="module", params=[PREFIX, "ml/v1/"])
def served(request, tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("prefix") / "models"
    for name in ("shout", "words"):
        write_model(folder, name, f"{name}_code.{name}", CODE, name=name)
    write_model(folder, "own", "routes.Routes", CODE, name="own")
    (folder / "settings.json").write_text(json.dumps({"root_path": request.param}))
    running = Running(folder, "--one-port")
    eventually(lambda: httpx.get(f"{running.url}/v2/health/ready").status_code == 200)
    yield running
    running.stop()


@pytest.mark.parametrize("version", ["HTTP/1", "HTTP/2"])
def test_each_route(served: Running, version: str) -> None:
    both = {"http1": version == "HTTP/1", "http2": version == "HTTP/2"}
    with httpx.Client(base_url=served.url, timeout=20, **both) as client:
        for path, body in ROUTES.items():
            method = "GET" if body is None else "POST"
            stripped, passed = (client.request(method, p + path, json=body) for p in ("", PREFIX))
            assert passed.status_code == stripped.status_code == (404 if path == "/nowhere" else 200), path
            assert passed.headers["content-type"] == stripped.headers["content-type"]
            if method == "POST" and path != "/v1/completions":
                assert passed.text == stripped.text
        assert client.get("/ml/v1x/v2").status_code == client.get("/ml").status_code == 404


def test_error_names_prefix(served: Running) -> None:
    at = served.url + PREFIX
    assert httpx.get(f"{at}/v2/docs/dataplane.json").json()["servers"] == [{"url": PREFIX}]
    assert httpx.get(f"{at}/proto").json()[0]["path"] == f"{PREFIX}/proto/dataplane.proto"
    assert httpx.get(f"{at}/own/x").json() == {"name": "x", "path": f"{PREFIX}/own/x"}
    for path in ("", "/", "/docs", "/v2/models/shout/docs"):
        page = httpx.get(at + path, headers={"accept": "text/html"})
        assert f'src="{PREFIX}/page/page.js"' in page.text


@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_clients(served: Running, prefix: str) -> None:
    with Client(served.url + prefix) as client:
        assert client.predict("shout", prompt="a") == "A"
        assert list(client.stream("words", prompt="a b")) == ["a", "b"]
    with connect(f"{served.url.replace('http', 'ws', 1)}{prefix}/v2/models/shout/stream") as opened:
        opened.send(json.dumps({"prompt": "a"}))
        assert '"A"' in str(opened.recv(20))
    message = ModelInferRequest(model_name="shout")
    message.inputs.add(name="prompt", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"a")
    url = f"{served.url}{prefix}/inference.GRPCInferenceService/ModelInfer"
    answered = httpx.post(
        url, content=framed(message.SerializeToString()), headers=headers_of(BINARY), timeout=20
    )
    assert b"grpc-status:0" in answered.content


def test_keys_and_probes(tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "shout", "code.shout", CODE, name="shout")
    write_model(folder, "own", "routes.Routes", CODE, name="own")
    (folder / "settings.json").write_text(json.dumps({"root_path": PREFIX, "max_connections": 1}))
    running = Running(folder, **{VARIABLE: KEYS})
    try:
        at = running.url + PREFIX
        eventually(lambda: httpx.get(f"{at}/v2/health/ready").status_code == 200)
        assert httpx.post(f"{at}/v2/models/shout/generate", json={"prompt": "a"}).status_code == 401
        assert httpx.get(f"{at}/own/x").status_code == httpx.get(f"{at}/metrics").status_code == 401
        with pytest.raises(InvalidStatus, match="401"):
            connect(f"{at.replace('http', 'ws', 1)}/v2/models/shout/stream")
        with socket.create_connection(("127.0.0.1", running.http_port)) as held:
            held.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert held.recv(65536).startswith(b"HTTP/1.1 200")
            assert httpx.get(f"{at}/v2/health/live").status_code == 200
            assert httpx.get(f"{at}/v2").status_code == 503
    finally:
        running.stop()
