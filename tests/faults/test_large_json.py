"""Large JSON of every shape costs what its size does: an error that names the limit, and a server that serves on.

The server before these limits took 200 s for 4 MB of keys, and grew by thirty times the size of a body.
"""

import base64
import gzip
import json
import socket
from collections.abc import Iterator

import httpx
import pytest
from websockets.sync.client import connect

from tests.serving import Running

MEGABYTES = 4 * 2**20
APP = """
import numpy as np
from numpy.typing import NDArray
from inferstream import App

app = App()


@app.model
def total(x: NDArray[np.int64]) -> int:
    return int(x.sum())


@app.model
def words(prompt: str) -> str:
    return prompt[:5]
"""


def repeated(unit: bytes, before: bytes, after: bytes) -> bytes:
    return before + b",".join([unit] * (MEGABYTES // (len(unit) + 1))) + after


def tensor(datatype: str, data: bytes) -> bytes:
    return b'{"inputs":[{"name":"x","datatype":"%b","shape":[1],"data":[%b]}]}' % (datatype.encode(), data)


KEYS = b",".join(b'"k%d":1' % number for number in range(MEGABYTES // 11))
BODIES = {
    "keys of parameters": (b'{"inputs":[],"parameters":{%b}}' % KEYS, "more than the 256 allowed"),
    "keys of an input": (
        b'{"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":[1],"parameters":{%b}}]}' % KEYS,
        "more than the 256 allowed",
    ),
    "keys of the body": (b'{"inputs":[],%b}' % KEYS, "missing"),
    "a key given twice": (b'{"inputs":[],%b,"k1":2}' % KEYS, "given twice|missing"),
    "inputs": (
        repeated(b'{"name":"a"}', b'{"inputs":[', b"]}"),
        "inputs are more than the 256 allowed|max_json_values",
    ),
    "outputs": (
        repeated(b'{"name":"a"}', b'{"inputs":[],"outputs":[', b"]}"),
        "outputs are more than the 256 allowed|max_json_values",
    ),
    "lists": (repeated(b"[]", b'{"inputs":[', b"]}"), "max_json_values"),
    "strings": (tensor("BYTES", repeated(b'"a"', b"", b"")), "max_json_values"),
    "depth": (b'{"inputs":' + b"[" * MEGABYTES, "max_json_depth"),
    "fractions": (tensor("INT64", repeated(b"-9.5", b"", b"")), "INT64 needs an integer, got -9.5"),
}


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("large")
    (folder / "app.py").write_text(APP)
    running = Running(folder, target=str(folder / "app.py"))
    yield running
    assert running.stop() == 0


def post(server: Running, path: str, body: bytes) -> httpx.Response:
    # Half a minute is a hundred times what the slowest of these takes.
    return httpx.post(f"{server.url}{path}", content=body, timeout=30)


@pytest.mark.parametrize("body", BODIES)
def test_body_with_many_values_is_refused(open_server: Running, body: str) -> None:
    text, message = BODIES[body]
    response = post(open_server, "/v2/models/total/infer", text)
    assert response.status_code == 400
    assert any(part in response.json()["error"] for part in message.split("|"))


@pytest.mark.parametrize("path", ["/v2/models/words/generate", "/v1/chat/completions", "/generate", "/rpc"])
@pytest.mark.parametrize("body", ["keys of the body", "lists", "depth", "a key given twice"])
def test_every_protocol_refuses_many_values(open_server: Running, path: str, body: str) -> None:
    response = post(open_server, path, BODIES[body][0])
    # JSON-RPC has its own errors, and TGI its own status.
    assert response.status_code == {"/rpc": 200, "/generate": 422}.get(path, 400)
    assert "error" in response.json()


PATHS = (
    "/v2/models/words/infer",
    "/v2/models/words/generate",
    "/v1/models/words:predict",
    "/v1/chat/completions",
)
MEDIA_TYPES = (
    "",
    "text/plain",
    "text/csv",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "application/msgpack",
    "application/x-ndjson",
    "application/cloudevents+json",
    "application/json; charset=utf-16",
)


@pytest.mark.parametrize("media_type", MEDIA_TYPES)
@pytest.mark.parametrize("path", PATHS)
def test_media_type_does_not_bypass_limit(open_server: Running, path: str, media_type: str) -> None:
    for body in ("lists", "depth"):
        headers = {"Content-Type": media_type}
        response = httpx.post(
            f"{open_server.url}{path}", content=BODIES[body][0], headers=headers, timeout=30
        )
        assert response.status_code in (400, 415), response.text
        assert response.status_code == 415 or BODIES[body][1] in response.text


@pytest.mark.parametrize("path", ["/v1/models/words:predict", "/v1/models/total:predict"])
@pytest.mark.parametrize("body", ["lists", "depth"])
@pytest.mark.parametrize("field", ["data", "data_base64"])
def test_event_data_is_counted(open_server: Running, path: str, body: str, field: str) -> None:
    inner, message = BODIES[body]
    data = inner if field == "data" else b'"%b"' % base64.b64encode(inner)
    event = b'{"specversion":"1.0","id":"1","source":"tests","type":"asked","%b":%b}' % (field.encode(), data)
    headers = {"Content-Type": "application/cloudevents+json"}
    response = httpx.post(f"{open_server.url}{path}", content=event, headers=headers, timeout=30)
    assert response.status_code == 400
    assert message in response.json()["error"]


def test_websocket_refuses_many_values_and_keeps_order(open_server: Running) -> None:
    url = f"{open_server.url}/v2/models/words/stream".replace("http", "ws")
    with connect(url, max_size=None, proxy=None) as socket:
        for body in ("keys of parameters", "lists", "depth"):
            socket.send(BODIES[body][0].decode())
            socket.send(json.dumps({"id": body, "prompt": "hello world"}))
            assert BODIES[body][1] in json.loads(socket.recv(timeout=30))["error"]
            answer = json.loads(socket.recv(timeout=30))
            assert (answer["id"], answer["output"]) == (body, "hello")


def test_large_numbers_are_served(open_server: Running) -> None:
    numbers = list(range(400_000))
    body = json.dumps(
        {"inputs": [{"name": "x", "datatype": "INT64", "shape": [400_000], "data": numbers}]}
    ).encode()
    assert len(body) > 2**20
    response = post(open_server, "/v2/models/total/infer", body)
    assert response.json()["outputs"][0]["data"] == [sum(numbers)]
    flat = post(open_server, "/v2/models/total/generate", json.dumps({"x": numbers}).encode())
    assert flat.json()["output"] == sum(numbers)


def test_body_is_refused_at_first_surplus_value(open_server: Running) -> None:
    """The rest of it never comes."""
    with socket.create_connection(("127.0.0.1", open_server.http_port), 20) as sock:
        head = "POST /v2/models/total/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000000\r\n\r\n"
        sock.sendall(head.encode() + b'{"inputs":[' + b"[]," * 1_100_000)
        answer = sock.recv(4096)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in answer
    assert b"max_json_values" in answer


def test_tensors_after_large_json_do_not_count(open_server: Running) -> None:
    size = 600_000
    tensor = {
        "name": "x",
        "datatype": "INT64",
        "shape": [size],
        "parameters": {"binary_data_size": 8 * size},
    }
    head = json.dumps({"inputs": [tensor]}).encode()
    response = httpx.post(
        f"{open_server.url}/v2/models/total/infer",
        content=head + b"[" * (8 * size),
        headers={"Inference-Header-Content-Length": str(len(head))},
        timeout=30,
    )
    assert response.status_code == 200


@pytest.mark.parametrize("size", [100, 5 * 2**20])
def test_content_length_with_too_many_digits_is_refused(open_server: Running, size: int) -> None:
    response = httpx.post(
        f"{open_server.url}/v2/models/total/infer",
        content=b" " * size,
        headers={"Inference-Header-Content-Length": "1" * 5000},
        timeout=30,
    )
    assert response.status_code == 400
    assert "must be a number of bytes within the body's" in response.json()["error"]


def test_compressed_body_is_counted_after_decompression(open_server: Running) -> None:
    response = httpx.post(
        f"{open_server.url}/v2/models/total/infer",
        content=gzip.compress(b'{"inputs":[' + b"[]," * 3_000_000 + b"1]}", 1),
        headers={"Content-Encoding": "gzip"},
        timeout=30,
    )
    assert response.status_code == 400
    assert "max_json_values" in response.json()["error"]


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("strict")
    (folder / "app.py").write_text(APP)
    limits = {"max_json_bytes": 1000, "max_json_depth": 4, "max_json_values": 40}
    (folder / "settings.json").write_text(json.dumps(limits))
    running = Running(folder, target=str(folder / "app.py"))
    yield running
    assert running.stop() == 0


@pytest.mark.parametrize(
    ("body", "status", "setting"),
    [
        ({"prompt": "a" * 1000}, 413, "max_json_bytes"),
        ({"prompt": [[[["a"]]]]}, 400, "max_json_depth"),
        ({"prompt": ["a"] * 40}, 400, "max_json_values"),
    ],
)
def test_settings_define_limits(strict_server: Running, body: dict, status: int, setting: str) -> None:
    response = post(strict_server, "/v2/models/words/generate", json.dumps(body).encode())
    assert response.status_code == status
    assert setting in response.json()["error"]
    url = f"{strict_server.url}/v2/models/words/stream".replace("http", "ws")
    with connect(url, proxy=None) as socket:
        socket.send(json.dumps(body))
        assert setting in json.loads(socket.recv(timeout=30))["error"]
    assert post(strict_server, "/v2/models/words/generate", b'{"prompt": "hello"}').status_code == 200


def test_binary_tensors_have_body_limit(strict_server: Running) -> None:
    head = json.dumps(
        {
            "inputs": [
                {"name": "x", "datatype": "INT64", "shape": [1000], "parameters": {"binary_data_size": 8000}}
            ]
        }
    ).encode()
    response = httpx.post(
        f"{strict_server.url}/v2/models/total/infer",
        content=head + b"[" * 8000,
        headers={"Inference-Header-Content-Length": str(len(head))},
    )
    assert response.status_code == 200


def test_repository_calls_have_limits(strict_server: Running) -> None:
    response = httpx.post(f"{strict_server.url}/v2/repository/index", content=b'{"a":' * 5 + b"1" + b"}" * 5)
    assert response.status_code == 400
    assert "max_json_depth" in response.json()["error"]
