"""Recordings: what they keep of credentials, and whom a replay of a hostile one asks."""

import gzip
import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.cve.test_prefixes import new_key
from tests.serving import SERVER, Running, eventually, text, write_model

CVES = ()
"""No advisory of another server is of this class."""

OPERATORS_KEY = "the-operators-key"
INFER = "/v2/models/m/infer"


class Asked(ThreadingHTTPServer):
    """Notes each request; `/v2/models/redirect/…` is answered with a redirect."""

    def __init__(self, location: str = "") -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                server.asked.append((self.path, headers, body))
                redirected = "/redirect/" in self.path
                self.send_response(307 if redirected else 200)
                if redirected:
                    self.send_header("Location", location)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

        for method in ("GET", "POST", "PUT", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.answer)
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"127.0.0.1:{self.server_address[1]}"
        Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture
def evil() -> Iterator[Asked]:
    with Asked() as made:
        yield made
        made.shutdown()


@pytest.fixture
def good(evil: Asked) -> Iterator[Asked]:
    with Asked(f"http://{evil.url}/stolen") as made:
        yield made
        made.shutdown()


def line(id: Any, target: Any = INFER, door: str = "http", **more: Any) -> dict[str, Any]:
    """A line of a file of the recorder; `more` replaces parts of it."""
    request = {"target": target, "headers": [["content-type", "application/json"]], "method": "POST"}
    status: Any = {"http": 200, "websocket": 101, "grpc": "OK"}.get(str(door), 200)
    made: dict[str, Any] = {
        "schema": "inferstream.record/1",
        "id": id,
        "t": 1.7e9,
        "door": door,
        "dialect": "v2",
        "model": "m",
        "version": "",
        "principal": None,
        "request": request,
        "events": [[0.0, "in", "{}"], [1.0, "out", "{}"]],
        "end": {"code": "success", "status": status},
    }
    request |= more.pop("request", {})
    return made | more


def elsewhere(address: str) -> dict[str, str]:
    """Targets that would leave the destination, or its inferences."""
    return {
        "user": f"@{address}/v2/models/m/infer",
        "port and user": f":1@{address}/v2/models/m/infer",
        "host": f"//{address}/v2/models/m/infer",
        "absolute": f"http://{address}/v2/models/m/infer",
        "suffix": f".{address}/v2/models/m/infer",
        "backslash": f"\\\\{address}\\v2",
        "slash and backslash": f"/\\{address}/v2/models/m/infer",
        "none": "",
        "no slash": "v2/models/m/infer",
        "a line break": "/v2/models/m/infer\r\nX-Y: z",
        "a space": "/v2/models/m/infer HTTP/1.1",
        "a fragment": "/v2/models/m/infer#x",
        "a NUL": "/v2/models/m\0/infer",
        "no ASCII": "/v2/models/\u00fc/infer",
        "an unload": "/v2/repository/models/m/unload",
        "an encoded unload": "/v2/%72epository/models/m/unload",
        "upwards": "/v2/models/m/../../../v2/repository/models/m/unload",
        "encoded upwards": "/v2/models/%2e%2e/infer",
        "settings": "/v2/logging",
        "memory": "/v2/systemsharedmemory/region/x/register",
        "metrics": "/metrics",
        "unknown": "/whatever",
    }


WRONG: list[Any] = [
    {"request": {"target": 5}},
    {"request": {"headers": {"a": 1}}},
    {"request": {"headers": [["a"]]}},
    {"request": {"headers": [[1, 2]]}},
    {"request": {"headers": [["x", "a\r\nX-Injected: b"]]}},
    {"request": {"headers": [["x\r\nX-Injected", "b"]]}},
    {"request": {"headers": [["x", "\u20ac"]]}},
    {"request": {"method": "DELETE"}},
    {"request": {"method": "POST / HTTP/1.1\r\nX-Injected: b\r\n"}},
    {"request": {"method": 5}},
    {"events": None},
    {"events": [[0]]},
    {"events": [["x", "in", "{}"]]},
    {"events": [[float("nan"), "in", "{}"]]},
    {"events": [[float("inf"), "in", "{}"]]},
    {"events": [[-1, "in", "{}"]]},
    {"events": [[0, "sideways", "{}"]]},
    {"events": [[0, "in", [-1, 10]]]},
    {"events": [[0, "in", [0, 10**12]]]},
    {"events": [[0, "in", [0]]]},
    {"events": [[0, "in", ["a", "b"]]]},
    {"end": []},
    {"end": {"status": [], "code": 1}},
    {"t": "now"},
    {"t": float("nan")},
    {"t": -1},
    {"door": "ftp"},
    {"door": ["http"]},
    {"model": None},
    {"dialect": 5},
    {"schema": "another/1"},
]


def replayed(file: Path, *flags: str) -> tuple[int, dict[str, Any], str]:
    """The exit code of a replay, its report, and all that it has printed."""
    command = [*SERVER, "replay", str(file), "--json", "-H", f"X-API-Key: {OPERATORS_KEY}", *flags]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in ran.stderr
    return ran.returncode, json.loads(ran.stdout), ran.stdout + ran.stderr


@pytest.mark.parametrize("speed", ["max", "1x"])
def test_hostile_recording_reaches_no_other_host(
    tmp_path: Path, good: Asked, evil: Asked, speed: str
) -> None:
    hostile = [
        line(f"{door} {name}", target, door)
        for door in ("http", "websocket", "grpc")
        for name, target in elsewhere(evil.url).items()
        if target
    ]
    hostile += [line(f"wrong {number}", **wrong) for number, wrong in enumerate(WRONG)]
    hostile += [line(5), line("grpc", "/inference.GRPCInferenceService/RepositoryModelUnload", "grpc")]
    hostile += [line("redirect", "/v2/models/redirect/infer")]
    hostile += [line("socket", "/v2/models/redirect/stream", "websocket")]
    texts = [json.dumps(each) for each in hostile]
    texts += ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "[]", "5", '"x"']
    honest = [line(f"honest {number}", t=1.7e9 + number / 100) for number in range(5)]
    honest += [line("early", t=0.0), line("late", t=1e300), line("\x1b[31mred", model="\x1b]0;title\x07")]
    honest.append(line("others", request={"headers": [["Host", evil.url], ["X-Api-Key", "theirs"]]}))
    file = tmp_path / "record.jsonl"
    mixed = [*map(json.dumps, honest[:3]), *texts, *map(json.dumps, honest[3:]), "torn"]
    file.write_text("\n".join(mixed))
    file.with_name("record.jsonl.bin").write_bytes(b"x" * 20)
    code, report, printed = replayed(
        file, "--against", f"http://{good.url}", "--grpc", evil.url, "--speed", speed
    )
    assert (code, report["passed"], report["failed"]) == (1, len(honest), len(texts)), report
    assert not evil.asked
    assert {path for path, _, _ in good.asked} <= {
        INFER,
        "/v2/models/redirect/infer",
        "/v2/models/redirect/stream",
    }
    for _, headers, _ in good.asked:
        assert (headers["x-api-key"], headers["host"]) == (OPERATORS_KEY, good.url)
        assert "x-injected" not in headers
    assert "\x1b" not in printed


APP = """
from collections.abc import AsyncIterator
from inferstream import App

app = App()

@app.model
async def say(prompt: str) -> AsyncIterator[str]:
    yield f"you said {prompt}"

@app.model
def length(text: str) -> int:
    return len(text)
"""

HEADERS = (
    *(
        "Authorization",
        "Proxy-Authorization",
        "X-API-Key",
        "Api-Key",
        "X-Goog-Api-Key",
        "X-Amz-Security-Token",
    ),
    *(
        "Cookie",
        "X-Auth-Token",
        "X-Access-Token",
        "Ocp-Apim-Subscription-Key",
        "X-CSRF-Token",
        "X-Functions-Key",
    ),
    *("Private-Token", "X-Vault-Token", "X-Forwarded-Access-Token", "X-Amz-Signature"),
)
PARAMETERS = (
    "api_key",
    "access_token",
    "X-Amz-Signature",
    "X-Amz-Credential",
    "sig",
    "key",
    "token",
    "access%5Ftoken",
)


def document(value: str) -> bytes:
    return json.dumps(
        {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [value]}]}
    ).encode()


def test_recordings_hold_no_credentials_and_masked_ones_replay(tmp_path: Path) -> None:
    key, entry = new_key("rec", "alice")
    secret, other = key[-40:], "HUNTER2SECRET"
    (tmp_path / "keys.json").write_text(json.dumps({"version": 1, "keys": [entry]}))
    (folder := tmp_path / "models").mkdir()
    (folder / "app.py").write_text(APP)
    record = tmp_path / "record.jsonl"
    with Asked() as sink:
        settings = {
            "keys_file": str(tmp_path / "keys.json"),
            "record": {"path": str(record), "bodies": True, "url": f"http://{sink.url}/"},
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        running = Running(folder, target=str(folder / "app.py"))
        mine = {"Authorization": f"Bearer {key}"}
        url = f"{running.url}/v2/models/length/infer"
        asked = 0
        with httpx.Client(timeout=20) as client:

            def post(url: str, content: bytes, headers: dict[str, str] | None = None) -> None:
                nonlocal asked
                asked += 1
                answer = client.post(url, content=content, headers=mine | (headers or {}))
                assert answer.status_code in (200, 401, 404), answer.text

            for name in HEADERS:
                post(url, document("x"), {name: key if name in ("Authorization", "X-API-Key") else other})
            for name in PARAMETERS:
                post(f"{url}?{name}={other}", document("x"))
            post(f"{url}?a={key}&b=%69fs_{key[4:]}", document("x"), {"X-Custom": f"key {key}"})
            escaped = "".join(f"\\u{ord(c):04x}" for c in key)
            for value in (key, f"my {key}!"):
                post(url, document(value))
            post(url, document("KEY").replace(b"KEY", escaped.encode()))
            post(url, document("KEY").replace(b"KEY", b"\\u0069" + key[1:].encode()))
            post(f"{running.url}/v2/models/{key}/infer", document("x"))
            post(f"{running.url}/v2/models/say/infer_stream", document(key).replace(b'"text"', b'"prompt"'))
            post(url, gzip.compress(document(key)), {"Content-Encoding": "gzip"})
        with grpc.insecure_channel(running.grpc) as channel:
            request = ModelInferRequest(model_name="length")
            tensor = request.inputs.add(name="text", datatype="BYTES", shape=[1])
            tensor.contents.bytes_contents.append(key.encode())
            metadata = [
                ("x-api-key", key),
                ("api-key", other),
                ("x-auth-token-bin", other.encode()),
                ("x-other", key),
            ]
            GRPCInferenceServiceStub(channel).ModelInfer(request, metadata=metadata)
        socket_url = running.url.replace("http", "ws", 1)
        with connect(
            f"{socket_url}/v2/models/say/stream",
            subprotocols=["inferstream", f"inferstream.key.{key}"],  # type: ignore[list-item]
            proxy=None,
        ) as socket:
            socket.send(json.dumps({"id": "1", **text(key)}))
            socket.recv(20)
        for path in (f"/v2/models/{key}/stream", "/v2/models/%0d%0ax/stream"):
            with suppress(InvalidStatus):
                connect(f"{socket_url}{path}", additional_headers=mine, proxy=None)
        total = asked + 4
        eventually(lambda: record.read_text().count('"end":{') >= total, 30)
        eventually(lambda: len(sink.asked) >= 2 * total, 30)
        written = record.read_text() + record.with_name("record.jsonl.bin").read_bytes().decode("latin-1")
        events = "".join(f"{path} {headers} {body!r}" for path, headers, body in sink.asked)
        for where, found in (("record", written), ("events", events)):
            assert secret not in found, where
            assert other not in found, where
            assert escaped[-60:] not in found, where
            assert "ifs_***" in found
        requests = [json.loads(each)["request"] for each in record.read_text().splitlines()]
        targets = [request["target"] for request in requests if request]
        assert all(target.isascii() and target.isprintable() and target.startswith("/") for target in targets)
        code, report, _ = replayed(
            record, "--against", running.url, "--grpc", running.grpc, "-H", f"Authorization: Bearer {key}"
        )
        sink.shutdown()
    assert running.stop() == 0, running.text()
    assert report["passed"] > 0
    assert code in (0, 1)


def test_refused_targets_are_not_recorded_and_do_not_end_replay(tmp_path: Path) -> None:
    folder, record = tmp_path / "models", tmp_path / "record.jsonl"
    write_model(folder, "echo", "faulty_models.Echo", name="echo")
    (folder / "settings.json").write_text(json.dumps({"record": {"path": str(record), "bodies": True}}))
    running = Running(folder)
    running.infer("echo", text())
    host, _, port = running.url.removeprefix("http://").rpartition(":")
    import socket

    targets = [
        "http://evil.example/x",
        "//evil.example/v2/models/echo/stream",
        "/@evil.example/",
        "*",
        "/v2/models/%22%0a/stream",
    ]
    for target in targets:
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(
                f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            raw.recv(1000)
    running.infer("echo", text())
    eventually(lambda: record.read_text().count('"end":{') >= 2, 20)
    lines = [json.loads(line)["request"] for line in record.read_text().splitlines()]
    for head in filter(None, lines):  # a slow exchange is written in several lines, the first with its head
        target = head["target"]
        assert target.startswith("/")
        assert not target.startswith("//")
        assert target.isprintable()
    code, report, _ = replayed(record, "--against", running.url)
    assert (code, report["passed"], report["failed"]) == (0, 2, 0), report
    assert running.stop() == 0, running.text()
