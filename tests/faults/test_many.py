"""Many streams, connections and failures, and what is kept of them: no object, no descriptor, no memory.

`make many TIMES=100` repeats each a hundred times as often as `make test`.
"""

import json
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import grpc
import httpx
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from tests.engines import EVERY_ENGINE
from tests.grpc_web import SERVICE
from tests.serving import Running, eventually, fp32, text, write_model

CENSUS = """
import gc
import json
from collections import Counter
from inferstream import MLModel

class Census(MLModel):
    async def predict(self, payload):
        gc.collect()
        kinds = (type(each) for each in gc.get_objects())
        counts = Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
        return self.encode_response([json.dumps(counts)])
"""

EACH = 80 * int(os.environ.get("TIMES", "1"))
"""Streams, connections or failures of one kind."""

SPARE = EACH * 3 // 4
"""Objects of one class, and descriptors, that come and go. What is kept of each is more."""

MEMORY = 32 << 20
"""Bytes that the server may keep however many there were."""

Do = Callable[[int], None]


@pytest.fixture
def watched(serve, tmp_path: Path) -> Running:
    folder = tmp_path / "models"
    for name in ("Echo", "Slow", "Streaming", "Failing"):
        write_model(folder, name.lower(), f"faulty_models.{name}")
    write_model(folder, "census", "census.Census", CENSUS, parallel_workers=0)
    return serve(folder, INFERSTREAM_MAX_BODY_BYTES="1000000")


def keeps_nothing(server: Running, do: Do) -> None:
    """`do` as often as `EACH` says, after a part of that for what is made once; then nothing more may be there."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(do, range(EACH // 4)))
        before = kept(server)
        memory = server.rss()
        list(pool.map(do, range(EACH)))

    def more() -> dict[str, int]:
        after = kept(server)
        return {kind: count - before[kind] for kind, count in after.items() if count > before[kind] + SPARE}

    grown: dict[str, int] = {}
    with suppress(AssertionError):
        eventually(lambda: not (grown.clear() or grown.update(more()) or grown))
    assert not grown
    assert server.rss() < memory + MEMORY
    server.probe()


def kept(server: Running) -> Counter[str]:
    """Objects in the process with the ports, by class, and descriptors of all processes."""
    [counts] = server.infer("census", {"inputs": []}).json()["outputs"][0]["data"]
    pids = (server.process.pid, *server.workers())
    return Counter(
        json.loads(counts) | {"descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)}
    )


ENDLESS = {"items": 10**9, "delay": 0.001}


def message(model: str, **parameters: float) -> bytes:
    request = ModelInferRequest(model_name=model)
    request.inputs.add(name="text", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"hi")
    for name, value in parameters.items():
        if isinstance(value, float):
            request.parameters[name].double_param = value
        else:
            request.parameters[name].int64_param = value
    return request.SerializeToString()


def test_many_sse_streams_half_disconnected(watched: Running) -> None:
    with httpx.Client(base_url=watched.url, timeout=60) as client:

        def stream(number: int) -> None:
            left = number % 2
            body = text(parameters=ENDLESS if left else {})
            with client.stream("POST", "/v2/models/streaming/infer_stream", json=body) as response:
                assert response.status_code == 200
                for _ in response.iter_raw():
                    if left:
                        return

        keeps_nothing(watched, stream)


def test_many_websocket_streams_half_disconnected(watched: Running) -> None:
    url = f"{watched.url.replace('http', 'ws', 1)}/v2/models/streaming/stream"

    def stream(number: int) -> None:
        left = number % 2
        with connect(url) as opened:
            opened.send(json.dumps(text(id="a", parameters=ENDLESS if left else {})))
            assert "item 0" in opened.recv(timeout=60)
            if left:
                opened.socket.shutdown(socket.SHUT_RDWR)

    keeps_nothing(watched, stream)


@EVERY_ENGINE
def test_many_grpc_streams_half_cancelled(watched: Running) -> None:
    with grpc.insecure_channel(watched.grpc) as channel:
        call = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")

        def stream(number: int) -> None:
            left = number % 2
            responses = call(iter([message("streaming", **(ENDLESS if left else {}))]), timeout=60)
            next(responses)
            if left:
                responses.cancel()
            else:
                list(responses)

        keeps_nothing(watched, stream)


BEGINNINGS = (b"", b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
"""What a client has sent when it leaves."""


def test_many_connections(watched: Running) -> None:
    def visit(number: int) -> None:
        for port in (watched.http_port, watched.grpc_port, watched.metrics_port):
            for sent in BEGINNINGS:
                with socket.create_connection(("127.0.0.1", port), timeout=60) as opened:
                    if sent:
                        opened.sendall(sent)
                        opened.recv(10)

    keeps_nothing(watched, visit)


HTTP: dict[str, tuple[int, str, dict]] = {
    "no JSON": (400, "echo/infer", {"content": b"{"}),
    "a wrong shape": (
        400,
        "echo/infer",
        {"json": {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3], "data": [1.0]}]}},
    ),
    "no such model": (404, "nothing/infer", {"json": text()}),
    "a body that is too large": (413, "echo/infer", {"content": bytes(1_000_001)}),
    "an error of the model's author": (418, "failing/infer", {"json": text(parameters={"mode": "model"})}),
    "an exception": (500, "failing/infer", {"json": text(parameters={"mode": "value"})}),
    "a response that is none": (500, "failing/infer", {"json": text(parameters={"mode": "none"})}),
    "a stream that fails at once": (
        500,
        "streaming/infer_stream",
        {"json": text(parameters={"fail_at": 0})},
    ),
    "a stream that fails later": (
        200,
        "streaming/infer_stream",
        {"json": text(parameters={"fail_at": 2})},
    ),
    "an item that is no response": (
        200,
        "streaming/infer_stream",
        {"json": text(parameters={"bad_at": 2})},
    ),
    "a deadline": (
        504,
        "slow/infer",
        {"json": text(parameters={"seconds": 60}), "headers": {"X-Request-Timeout": "0.001"}},
    ),
}
"""Failures over HTTP: the status, the path behind `/v2/models/`, and the request."""

RPCS: dict[str, tuple[grpc.StatusCode, str, bytes]] = {
    "no message": (grpc.StatusCode.INVALID_ARGUMENT, "ModelInfer", b"\xff"),
    "no such model": (grpc.StatusCode.NOT_FOUND, "ModelInfer", message("nothing")),
    "no such RPC": (grpc.StatusCode.UNIMPLEMENTED, "Nothing", b""),
    "an exception": (grpc.StatusCode.INTERNAL, "ModelInfer", message("failing")),
    "a deadline": (grpc.StatusCode.DEADLINE_EXCEEDED, "ModelInfer", message("slow", seconds=60)),
    "a stream that fails later": (
        grpc.StatusCode.INTERNAL,
        "ModelStreamInfer",
        message("streaming", fail_at=2),
    ),
}
"""Failures over gRPC: the status, the RPC, and the message."""


@pytest.fixture
def failures(watched: Running) -> Iterator[dict[str, Do]]:
    """What fails in each way over each transport."""
    with (
        httpx.Client(base_url=watched.url, timeout=60) as client,
        grpc.insecure_channel(watched.grpc) as channel,
    ):
        yield {
            **{f"http: {name}": partial(fail_over_http, client, *each) for name, each in HTTP.items()},
            **{f"grpc: {name}": partial(fail_over_grpc, channel, *each) for name, each in RPCS.items()},
            "websocket": partial(fail_over_a_socket, f"{watched.url.replace('http', 'ws', 1)}"),
        }


def fail_over_http(client: httpx.Client, status: int, path: str, options: dict, number: int) -> None:
    response = client.post(f"/v2/models/{path}", **options)
    assert response.status_code == status, response.text
    assert status != 200 or "event: error" in response.text


def fail_over_grpc(channel: grpc.Channel, code: grpc.StatusCode, name: str, data: bytes, number: int) -> None:
    timeout = 0.05 if code is grpc.StatusCode.DEADLINE_EXCEEDED else 60
    metadata = (("x-stream-dialect", "mlserver"),)
    with pytest.raises(grpc.RpcError) as failed:
        list(channel.stream_stream(f"/{SERVICE}/{name}")(iter([data]), timeout=timeout, metadata=metadata))
    assert failed.value.code() is code


def fail_over_a_socket(url: str, number: int) -> None:
    with connect(f"{url}/v2/models/streaming/stream") as opened:
        for sent in ("{", json.dumps(text(id="a", parameters={"fail_at": 0})), json.dumps(fp32([1.0], id=5))):
            opened.send(sent)
            assert "error" in opened.recv(timeout=60)


def test_many_failures_of_each_kind(watched: Running, failures: dict[str, Do]) -> None:
    def fail(number: int) -> None:
        for do in failures.values():
            do(number)

    keeps_nothing(watched, fail)
