"""What clients of one port may do to each other: slow bodies, full ports, and a server that stops."""

import json
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import grpc
import httpx
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived, StreamEnded, StreamReset

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, fp32, write_model

TARGET = "/v2/models/echo/infer"


class Client:
    """A connection of HTTP/2, byte by byte."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.http = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.http.initiate_connection()

    def flush(self, size: int | None = None) -> None:
        """Send what there is, in pieces of `size` bytes."""
        data = self.http.data_to_send()
        size = size or len(data)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), size or 1):
            self.socket.sendall(data[at : at + size])

    def begin(self, *more: tuple[str, str], end: bool = False) -> int:
        stream = self.http.get_next_available_stream_id()
        pseudo = (":method", "POST"), (":scheme", "http"), (":path", TARGET), (":authority", "127.0.0.1")
        self.http.send_headers(stream, [*pseudo, *more], end_stream=end)
        return stream

    def until(self, *kinds: type[Event], stream: int | None = None) -> list[Event]:
        """What comes, up to an event of these kinds, or the end of the connection; `stream` ignores other streams."""
        events: list[Event] = []
        while not any(
            isinstance(event, kinds) and (stream is None or event.stream_id == stream) for event in events
        ):
            data = self.socket.recv(65536)
            if not data:
                break
            events += self.http.receive_data(data)
            self.flush()
        return events


@pytest.fixture
def one_port(start, tmp_path: Path) -> Callable[..., Running]:
    def started(**settings: object) -> Running:
        folder = tmp_path / "models"
        for name in ("Echo", "Streaming"):
            write_model(folder, name.lower(), f"faulty_models.{name}")
        (folder / "settings.json").write_text(json.dumps(settings))
        return start(folder, "--one-port")

    return started


def status_of(events: list[Event]) -> str:
    [head] = [event for event in events if isinstance(event, ResponseReceived)]
    return dict(head.headers)[":status"]


def test_fragmented_preface_is_accepted_and_late_bodies_are_limited(one_port) -> None:
    server = one_port(body_timeout=4)
    client = Client(server.http_port)
    with closing(client.socket):
        body = json.dumps(fp32([1.5])).encode()
        whole = client.begin(("content-length", str(len(body))))
        client.http.send_data(whole, body, end_stream=True)
        client.flush(size=1)
        assert status_of(client.until(StreamEnded)) == "200"
        for length in (("content-length", "10"), ("x-none", "1")):  # read directly, and as it arrives
            late = client.begin(length)
            client.http.send_data(late, b"{")
            client.flush()
            assert status_of(client.until(StreamEnded, StreamReset, stream=late)) == "408"
        again = client.begin(("content-length", str(len(body))))  # the other requests of the connection go on
        client.http.send_data(again, body, end_stream=True)
        client.flush()
        assert status_of(client.until(StreamEnded)) == "200"


def test_http_1_continues_after_invalid_preface(one_port) -> None:
    server = one_port()
    for beginning in (b"PRI", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"PROPFIND / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.http_port)) as line:
            line.sendall(beginning)
            line.shutdown(socket.SHUT_WR)
            while line.recv(65536):
                pass
    assert server.infer("echo", fp32([1.5])).status_code == 200


def test_connection_limit_covers_every_protocol(one_port) -> None:
    server = one_port(max_connections=2)
    with httpx.Client(base_url=server.url) as first, grpc.insecure_channel(server.grpc) as channel:
        assert first.get("/v2").status_code == 200
        request = ModelInferRequest(model_name="echo")
        request.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1.5)
        assert GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=20).outputs
        third = Client(server.http_port)
        with closing(third.socket):
            third.flush()
            [ended] = [e for e in third.until(ConnectionTerminated) if isinstance(e, ConnectionTerminated)]
            assert b"too many connections" in ended.additional_data
        assert httpx.post(f"{server.url}{TARGET}", json=fp32([1.5])).status_code == 503
        assert httpx.get(f"{server.url}/v2/health/live").status_code == 200


def test_stop_ends_rest_streams_completely_and_refuses_new_calls(one_port) -> None:
    """Beside a stream in progress, a new call on the channel that has been told to go gets UNAVAILABLE, and no wait."""
    server = one_port(shutdown_grace=20)
    body = {
        "id": "long",
        "inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": ["a"]}],
        "parameters": {"items": 30, "delay": 0.1},
    }
    request = ModelInferRequest(model_name="echo")
    request.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1.5)
    with (
        grpc.insecure_channel(server.grpc) as channel,
        httpx.Client(base_url=server.url, http1=False, http2=True, timeout=20) as client,
    ):
        stub = GRPCInferenceServiceStub(channel)
        assert stub.ModelInfer(request, timeout=20).outputs
        with client.stream("POST", "/v2/models/streaming/generate_stream", json=body) as streamed:
            lines = streamed.iter_lines()
            assert next(lines).startswith("data:")
            server.begin_stop()
            eventually(lambda: httpx.get(f"{server.url}/v2/health/ready").status_code == 503)
            with pytest.raises(grpc.RpcError) as refused:
                stub.ModelInfer(request, timeout=20)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            assert len([line for line in lines if line.startswith("data:")]) == 29
    assert server.stop() == 0


REFUSED_TARGETS = ("\\", "%5c", "/\u00e9")


@pytest.mark.parametrize("target", REFUSED_TARGETS)
def test_refused_head_has_no_body(one_port, target: str) -> None:
    """A body would be malformed, and end the connection of a client such as h2 with all its requests."""
    client = Client(one_port().http_port)
    with closing(client.socket):
        stream = client.http.get_next_available_stream_id()
        pseudo = (":method", "HEAD"), (":scheme", "http"), (":path", target), (":authority", "127.0.0.1")
        client.http.send_headers(stream, [*pseudo], end_stream=True)
        client.flush()
        found = client.until(StreamEnded, StreamReset, ConnectionTerminated, stream=stream)
    statuses = [dict(event.headers)[":status"] for event in found if isinstance(event, ResponseReceived)]
    assert statuses == ["400"]
    assert b"".join(event.data for event in found if isinstance(event, DataReceived)) == b""


@pytest.mark.parametrize(
    ("trailers", "expected"),
    [
        ([("x-request-timeout", "0.000001"), ("content-length", "1"), ("host", "elsewhere")], "200"),
        ([("x-more", "a" * 100)] * 50, "200"),
        ([("x-more", "a" * 30_000)], None),
        ([(f"x-{number}", "") for number in range(2000)], None),
    ],
    ids=["names of headers", "some", "large", "many"],
)
def test_trailers_are_ignored_and_limited(one_port, trailers: list, expected: str | None) -> None:
    body = json.dumps(fp32([1.0])).encode()
    client = Client(one_port().http_port)
    with closing(client.socket):
        stream = client.begin(("content-type", "application/json"))
        client.http.send_data(stream, body)
        client.http.send_headers(stream, trailers, end_stream=True)
        client.flush()
        found = client.until(StreamEnded, StreamReset, ConnectionTerminated, stream=stream)
        statuses = [dict(event.headers)[":status"] for event in found if isinstance(event, ResponseReceived)]
        assert statuses == ([expected] if expected else [])
        after = client.begin(("content-type", "application/json"))
        client.http.send_data(after, body, end_stream=True)
        client.flush()
        found = client.until(StreamEnded, StreamReset, ConnectionTerminated, stream=after)
        assert any(isinstance(event, ResponseReceived) for event in found)
