"""A path with a slash at its end is the same path, for every API and transport, and with keys too."""

import json
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from inferstream.plugins.keys.file import VARIABLE
from inferstream.protos.dataplane_pb2 import ModelInferRequest
from tests.grpc_web import BINARY, framed, headers_of
from tests.serving import Running

APP = """
from collections.abc import Iterator

from inferstream import App

app = App()


@app.model
def shout(prompt: str) -> str:
    return prompt.upper()


@app.model
def words(prompt: str) -> Iterator[str]:
    yield from prompt.split()
"""

GETS = (
    "/",
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    "/health",
    "/metrics",
    "/v2/models/shout",
    "/v2/models/shout/ready",
    "/v2/models/stats",
    "/v2/docs",
    "/v2/docs/dataplane.json",
    "/v1/models",
    "/api/tags",
    "/api/version",
    "/info",
)
POSTS = {
    "/v2/models/shout/infer": {
        "inputs": [{"name": "prompt", "shape": [1], "datatype": "BYTES", "data": ["a"]}]
    },
    "/v2/models/shout/generate": {"prompt": "a"},
    "/v2/models/words/generate_stream": {"prompt": "a b"},
    "/v2/repository/index": {},
    "/v1/completions": {"model": "shout", "prompt": "a"},
    "/v1/chat/completions": {"model": "shout", "messages": [{"role": "user", "content": "a"}]},
    "/v1/messages": {"model": "shout", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]},
    "/api/generate": {"model": "shout", "prompt": "a", "stream": False},
    "/generate": {"inputs": "a"},
    "/v1/models/shout:predict": {"instances": ["a"]},
}


@pytest.fixture(scope="module", params=["open", "with keys"])
def served(request, tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("slashes")
    (folder / "app.py").write_text(APP)
    (folder / "settings.json").write_text(json.dumps({"default_model": "shout"}))
    more = {} if request.param == "open" else {VARIABLE: '{"version": 1, "keys": []}'}
    running = Running(folder / "models", "--one-port", target="app.py", **more)
    yield running
    running.stop()


@pytest.fixture(params=["HTTP/1", "HTTP/2"])
def client(request, served: Running) -> Iterator[httpx.Client]:
    both = {"http1": request.param == "HTTP/1", "http2": request.param == "HTTP/2"}
    with httpx.Client(base_url=served.url, timeout=20, **both) as client:
        yield client


VARIES = (
    "id",
    "created",
    "created_at",
    "total_duration",
    "load_duration",
    "eval_duration",
    "prompt_eval_duration",
)


def shown(response: httpx.Response) -> tuple[int, object]:
    try:
        body = response.json()
    except ValueError:
        return response.status_code, response.headers.get("content-type")
    if isinstance(body, dict):
        body = {name: value for name, value in body.items() if name not in VARIES}
    return response.status_code, body


@pytest.mark.parametrize("path", GETS)
def test_reads(client: httpx.Client, path: str) -> None:
    plain = client.get(path)
    assert plain.status_code in (200, 401)
    for slashes in ("/", "//"):
        assert shown(client.get(path + slashes))[0] == plain.status_code
    assert client.head(f"{path}/").status_code == client.head(path).status_code


@pytest.mark.parametrize("path", POSTS)
def test_inferences(client: httpx.Client, path: str) -> None:
    plain = client.post(path, json=POSTS[path])
    assert plain.status_code in (200, 401), plain.text
    assert shown(client.post(f"{path}/", json=POSTS[path])) == shown(plain)
    assert shown(client.post(f"{path}/?a=1", json=POSTS[path]))[0] == plain.status_code
    assert client.put(f"{path}/").status_code == client.put(path).status_code


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_websockets(served: Running, client: httpx.Client, slashes: str) -> None:
    url = f"{served.url.replace('http', 'ws', 1)}/v2/models/shout/stream{slashes}"
    if client.get("/v2/models/shout").status_code == 401:
        with pytest.raises(InvalidStatus, match="401"), connect(url):
            pass
        return
    with connect(url) as socket:
        socket.send(json.dumps(POSTS["/v2/models/shout/infer"]))
        assert json.loads(socket.recv(20))["outputs"][0]["data"] == ["A"]


@pytest.mark.parametrize("slashes", ["", "/", "//"])
@pytest.mark.parametrize(
    ("path", "method", "params"),
    [
        ("/mcp", "tools/call", {"name": "shout", "arguments": {"prompt": "a"}}),
        ("/rpc", "shout", {"prompt": "a"}),
    ],
)
def test_json_rpc(
    served: Running, client: httpx.Client, path: str, method: str, params: dict, slashes: str
) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    plain, answered = (client.post(f"{path}{end}", json=call) for end in ("", slashes))
    assert (answered.status_code, answered.text) == (plain.status_code, plain.text)
    assert answered.status_code == 401 or '"A"' in answered.text
    assert client.get(f"{path}{slashes}").status_code == client.get(path).status_code == 405


@pytest.mark.parametrize("slashes", ["", "/"])
def test_grpc_web(client: httpx.Client, slashes: str) -> None:
    message = ModelInferRequest(model_name="shout")
    message.inputs.add(name="prompt", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"a")
    answered = client.post(
        f"/inference.GRPCInferenceService/ModelInfer{slashes}",
        content=framed(message.SerializeToString()),
        headers=headers_of(BINARY),
    )
    is_open = client.get("/v2/models/shout").status_code == 200
    assert (b"grpc-status:0" if is_open else b"grpc-status:16") in answered.content
