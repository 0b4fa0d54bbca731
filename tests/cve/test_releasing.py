"""Requests that are given up halfway, and what they leave behind: nothing."""

import json
import socket
import struct
from collections.abc import Callable

import grpc
import httpx
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from tests.cve.audited import Audited
from tests.grpc_web import SERVICE, Stream
from tests.serving import eventually, text

CVES = ("CVE-2026-9540",)

TIMES = 24
LINGER_NOT = struct.pack("ii", 1, 0)
"""Closing is a reset."""


def begun(
    server: Audited, path: str, body: dict, *, reset: bool = False, read: bool = True, part: int = 0
) -> None:
    """Begin a request over HTTP, read what comes first, and leave."""
    data = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=20) as opened:
        if reset:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        head = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        opened.sendall(head % (path.encode(), len(data)) + (data[:-part] if part else data))
        if read:
            opened.recv(100)


SLOW = text(parameters={"seconds": 60})
ENDLESS = text(parameters={"items": 10**9})
CHAT = {"model": "words", "messages": [{"role": "user", "content": "hi"}], "endless": True, "stream": True}
RPC = {"jsonrpc": "2.0", "id": 1, "method": "words", "params": {"prompt": "hi"}}


def message(model: str, name: str, value: int) -> ModelInferRequest:
    found = ModelInferRequest(model_name=model)
    found.inputs.add(name="text", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"hi")
    found.parameters[name].int64_param = value
    return found


def rpc(server: Audited) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        unary = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        waiting = unary.future(message("slow", "seconds", 60).SerializeToString())
        waiting.cancel()
        streamed = channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
        endless = streamed(iter([message("spinning", "items", 10**9).SerializeToString()]))
        next(endless)
        endless.cancel()


def over_grpc_web(server: Audited) -> None:
    stream = Stream(server.url, "ModelStreamInfer", message("spinning", "items", 10**9).SerializeToString())
    next(stream)
    stream.close()


def over_websocket(server: Audited) -> None:
    with connect(f"ws://127.0.0.1:{server.http_port}/v2/models/spinning/stream", close_timeout=1) as opened:
        opened.send(json.dumps({**ENDLESS, "id": "a"}))
        opened.recv(timeout=20)
        opened.socket.shutdown(socket.SHUT_RDWR)


def resumable(server: Audited) -> None:
    headers = {"Prefer": "resumable"}
    url = f"{server.url}/v2/models/both/infer_stream"
    with httpx.stream("POST", url, json=text(), headers=headers, timeout=20) as response:
        next(response.iter_raw())


WAYS: dict[str, Callable[[Audited], None]] = {
    "a single response": lambda server: begun(server, "/v2/models/slow/infer", SLOW, read=False),
    "a single response, reset": lambda server: begun(
        server, "/v2/models/slow/infer", SLOW, read=False, reset=True
    ),
    "half a body": lambda server: begun(server, "/v2/models/slow/infer", SLOW, read=False, part=5),
    "events": lambda server: begun(server, "/v2/models/spinning/infer_stream", ENDLESS),
    "events, reset": lambda server: begun(server, "/v2/models/spinning/infer_stream", ENDLESS, reset=True),
    "a chat": lambda server: begun(server, "/v1/chat/completions", CHAT),
    "several texts": lambda server: begun(server, "/v1/chat/completions", {**CHAT, "n": 4}, reset=True),
    "a chat in one piece": lambda server: begun(
        server, "/v1/chat/completions", {**CHAT, "stream": False}, read=False
    ),
    "TGI": lambda server: begun(server, "/generate_stream", {"inputs": "a", "parameters": {"endless": True}}),
    "JSON-RPC": lambda server: begun(
        server, "/rpc", {**RPC, "params": {"prompt": "a", "endless": True}}, read=False
    ),
    "a route of a model": lambda server: begun(server, "/own/post", {"a": 1}, read=False, part=2),
    "a load": lambda server: begun(server, "/v2/repository/models/nobody/load", {}, read=False, reset=True),
    "RPCs": rpc,
    "gRPC-Web": over_grpc_web,
    "a WebSocket": over_websocket,
}


@pytest.mark.parametrize("way", WAYS)
def test_abandoned_request_is_released(watched: Audited, way: str) -> None:
    WAYS[way](watched)  # what is made once is there
    calls = "inferstream_calls_in_progress"

    def idle() -> bool:
        page = httpx.get(f"{watched.url}/metrics").text
        return not any(
            line.startswith(f"{calls}{{") and not line.endswith(" 0.0") for line in page.splitlines()
        )

    eventually(idle, 20)
    descriptors, threads = watched.descriptors(), watched.threads()
    for _ in range(TIMES):
        WAYS[way](watched)
    # A few of either come and go with whoever else is connected; what is lost is lost each time.
    eventually(lambda: watched.descriptors() < descriptors + TIMES // 4, 20)
    eventually(lambda: watched.threads() < threads + TIMES // 4, 20)
    eventually(idle, 20)
