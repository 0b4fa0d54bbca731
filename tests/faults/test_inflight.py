"""Bodies in flight have a bound together, and a client that leaves gives its bytes back at once."""

import gzip
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.faults.test_websocket import BINARY, Raw, frame
from tests.floods import DATA, END_HEADERS, HEADERS, INFER, STREAM, Peer, block, literal, message
from tests.floods import frame as frame2
from tests.frontends import front_ends
from tests.mounted import COMMANDS, host, write_host
from tests.serving import Running, eventually, fp32, write_model

LIMIT = 3584 * 1024
PART = 1344 * 1024
"""Bytes of a body that have come: three of these are above the limit, and one is too slow after 5.25 seconds."""

BODY = 1792 * 1024
MANY = 6
HELD = "inferstream_inflight_bytes"

SLOW = """
import asyncio

from inferstream import MLModel
from inferstream.types import InferenceResponse


class Slow(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(3600)
        return InferenceResponse(model_name=self.name, outputs=[])
"""


@pytest.fixture(params=["in process", "workers", "one port", "two front ends"], scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("inflight") / "models"
    workers = {"parallel_workers": 1} if request.param == "workers" else {"parallel_workers": 0}
    write_model(
        folder, "echo", "models.Echo", (Path(__file__).parent.parent / "faulty_models.py").read_text()
    )
    write_model(folder, "slow", "slow.Slow", SLOW, max_concurrency=1)
    front_ends = 2 if request.param == "two front ends" else 1
    settings = {
        "max_inflight_bytes": LIMIT * front_ends,
        "frontends": front_ends,
        "max_body_bytes": LIMIT,
        **workers,
    }
    settings["resumable_streams"] = False
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder, *(["--one-port"] if request.param == "one port" else []), within=60)
    try:
        yield running
    finally:
        running.stop()


def connected(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.http_port), timeout=20)


def http1(server: Running, taken: ExitStack) -> Callable[[], str]:
    return _http1(server, taken, b"Content-Length: %d\r\n" % BODY, b" " * PART)


def chunked(server: Running, taken: ExitStack) -> Callable[[], str]:
    return _http1(server, taken, b"Transfer-Encoding: chunked\r\n", b"%x\r\n%b" % (BODY, b" " * PART))


def grpc_web(server: Running, taken: ExitStack) -> Callable[[], str]:
    lines = b"Content-Type: application/grpc-web+proto\r\nContent-Length: %d\r\n" % (BODY + 5)
    path = INFER
    return _http1(server, taken, lines, message(b" " * PART, size=BODY), path)


def compressed(server: Running, taken: ExitStack) -> Callable[[], str]:
    """A whole request of some bytes that holds many while it waits for its model."""
    raw = bytes(PART)
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "datatype": "UINT8",
                    "shape": [PART],
                    "parameters": {"binary_data_size": PART},
                }
            ]
        }
    ).encode()
    body = gzip.compress(head + raw)
    lines = b"Content-Encoding: gzip\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d\r\n"
    return _http1(server, taken, lines % (len(head), len(body)), body, b"/v2/models/slow/infer")


def _http1(
    server: Running,
    taken: ExitStack,
    lines: bytes,
    part: bytes,
    path: bytes = b"/v2/models/echo/infer",
) -> Callable[[], str]:
    opened = taken.enter_context(connected(server))
    with suppress(OSError):
        opened.sendall(b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\n%b\r\n%b" % (path, lines, part))

    def refusal() -> str:
        opened.settimeout(0.01)
        try:
            answer = opened.recv(65536)
        except (TimeoutError, ConnectionError):
            return ""
        assert not answer or (b" 503 " in answer.splitlines()[0] and b"retry-after: 1" in answer), answer
        return answer.decode()

    return refusal


def websocket(server: Running, taken: ExitStack) -> Callable[[], str]:
    opened = taken.enter_context(Raw(server, "echo"))
    with suppress(OSError):
        opened.send(frame(BINARY, b" " * BODY)[: PART + 14])

    def refusal() -> str:
        opened.socket.settimeout(0.01)
        try:
            data = opened.socket.recv(200)
        except (TimeoutError, ConnectionError):
            return ""
        assert not data or int.from_bytes(data[2:4], "big") == 1013, data
        return data[4:].decode()

    return refusal


def grpc_call(server: Running, taken: ExitStack) -> Callable[[], str]:
    return _http2(server, taken, block(INFER))


def grpc_stream(server: Running, taken: ExitStack) -> Callable[[], str]:
    return _http2(server, taken, block(STREAM))


def rest_http2(server: Running, taken: ExitStack) -> Callable[[], str]:
    if server.http_port != server.grpc_port:
        pytest.skip("REST over HTTP/2 needs one port")
    fields = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/v2/models/echo/infer",
        b":authority": b"127.0.0.1",
    }
    return _http2(server, taken, b"".join(literal(*pair) for pair in fields.items()), b"503")


def _http2(
    server: Running, taken: ExitStack, head: bytes, refused: bytes = b"grpc-status\x018"
) -> Callable[[], str]:
    peer = Peer(server.grpc_port)
    taken.callback(peer.socket.close)
    part = message(b" " * PART, size=BODY)
    pieces = [part[at : at + 16384] for at in range(0, len(part), 16384)]
    sent = [frame2(HEADERS, END_HEADERS, 1, head), *(frame2(DATA, 0, 1, piece) for piece in pieces)]
    peer.pour(iter(sent), 10)

    def refusal() -> str:
        peer.wait(lambda seen: seen.headers, 0.05)
        if peer.seen.headers:
            assert refused in peer.seen.headers, peer.seen.headers
        return "max_inflight_bytes" if peer.seen.headers else ""

    return refusal


def _processes(server: Running) -> int:
    return 1 + len(front_ends(server))


FLOODS = (http1, chunked, grpc_web, compressed, websocket, grpc_call, grpc_stream, rest_http2)


@pytest.mark.parametrize("flood", FLOODS)
def test_bodies_over_limit_are_refused_and_abandoned_ones_released(
    server: Running, flood: Callable[[Running, ExitStack], Callable[[], str]]
) -> None:
    eventually(lambda: server.metric(HELD) == 0)
    with ExitStack() as taken:
        asked = [flood(server, taken) for _ in range(MANY * _processes(server))]
        found: list[str] = []
        eventually(lambda: found.extend(filter(None, (ask() for ask in asked))) or found)
        assert "max_inflight_bytes" in found[0]
        assert 0 < server.metric(HELD) <= LIMIT * _processes(server)
        server.probe()
    eventually(lambda: server.metric(HELD) == 0)
    assert server.metric("inferstream_inflight_refused_total") > 0
    assert server.infer("echo", fp32([1.0] * 30_000)).status_code == 200
    assert "Traceback" not in server.text()


@pytest.mark.parametrize("slow", [each for each in FLOODS if each is not compressed])
def test_slow_uploads_yield_memory_to_others(
    server: Running, slow: Callable[[Running, ExitStack], Callable[[], str]]
) -> None:
    eventually(lambda: server.metric(HELD) == 0)
    with ExitStack() as taken:
        for _ in range(MANY * _processes(server)):
            slow(server, taken)
        body = fp32([1.0] * 440_000)
        eventually(lambda: server.infer("echo", body).status_code == 200, 30)


def is_told(server: Running, many: int) -> None:
    """Slow clients get status 408 once another needs their room."""
    eventually(lambda: server.metric(HELD) == 0)
    with ExitStack() as taken:
        slow = [taken.enter_context(connected(server)) for _ in range(many)]
        head = b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % BODY
        for each in slow:
            with suppress(OSError):
                each.sendall(head + b" " * PART)
            each.settimeout(0.01)
        body = fp32([1.0] * 440_000)
        eventually(lambda: server.infer("echo", body).status_code == 200, 30)
        told: list[bytes] = []

        def received() -> bool:
            for each in slow:
                with suppress(OSError):
                    told.append(each.recv(65536))
            return any(b" 408 " in answer for answer in told)

        eventually(received)
        assert all(b"connection: close" in answer for answer in told if b" 408 " in answer)


def test_slow_upload_error_reports_timeout(server: Running) -> None:
    is_told(server, MANY * _processes(server))


@pytest.mark.parametrize("program", COMMANDS)
@pytest.mark.parametrize("slow", [http1, chunked, grpc_web])
def test_slow_uploads_yield_memory_under_other_asgi_servers(
    tmp_path: Path, program: str, slow: Callable[[Running, ExitStack], Callable[[], str]]
) -> None:
    models = write_host(tmp_path)
    settings = {"max_inflight_bytes": LIMIT, "max_body_bytes": LIMIT, "resumable_streams": False}
    (models / "settings.json").write_text(json.dumps(settings))
    running = host(program, "alone", models, 0, prefix="")
    try:
        with ExitStack() as taken:
            for _ in range(MANY):
                slow(running, taken)
            body = fp32([1.0] * 440_000)
            eventually(lambda: running.infer("echo", body).status_code == 200, 30)
        if program == "uvicorn":  # Hypercorn notices late that clients have left
            is_told(running, MANY)
    finally:
        running.stop()
