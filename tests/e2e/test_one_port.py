"""One port for HTTP/1, HTTP/2, gRPC and WebSocket, in plain and over TLS."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
import tritonclient.grpc
import tritonclient.http
from httpx_sse import aconnect_sse

from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.certificates import Authority
from tests.e2e.test_tls import WHO, Encrypted, message
from tests.serving import Running, fp32, text, write_model

MANY = 100
"""Streams that one connection of a browser may have."""


class OnePort(Encrypted):
    """A server with one certificate and one port, and clients that trust it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, 0, mutual=True, flags=("--one-port",))

    def http2(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, verify=self.trust(), timeout=20, http1=False, http2=True)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnePort]:
    found = OnePort(tmp_path_factory.mktemp("one-port"))
    yield found
    assert found.running.stop() == 0, found.running.text()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("plain") / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "streaming", "faulty_models.Streaming")
    (folder / "settings.json").write_text(json.dumps({"max_body_bytes": 6_000_000}))
    running = Running(folder, "--one-port")
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def http2(plain: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=plain.url, http1=False, http2=True, timeout=20) as client:
        yield client


async def test_clients_of_every_protocol_share_a_port_with_tls(encrypted: OnePort) -> None:
    """All at once: a hundred streams of one connection of HTTP/2, gRPC, HTTP/1.1 and a WebSocket."""
    assert encrypted.running.grpc_port == encrypted.running.http_port
    lines = set()
    begun, others = asyncio.Barrier(MANY + 1), asyncio.Event()
    # The library's blocking client numbers streams in one thread and sends them in another: not in their order.
    options = {"base_url": encrypted.url, "verify": encrypted.trust(), "timeout": 60}
    async with httpx.AsyncClient(**options, http1=False, http2=True) as browser, asyncio.TaskGroup() as group:

        async def read() -> list[str]:
            body = text(parameters={"items": 2, "delay": 0.01})
            async with aconnect_sse(
                browser, "POST", "/v2/models/streaming/generate_stream", json=body
            ) as source:
                assert source.response.http_version == "HTTP/2"
                lines.add(source.response.extensions["network_stream"].get_extra_info("client_addr"))
                await begun.wait()
                await others.wait()
                return [json.loads(event.data)["outputs"][0]["data"][0] async for event in source.aiter_sse()]

        streams = [group.create_task(read()) for _ in range(MANY)]
        await begun.wait()
        await asyncio.to_thread(_ask_by_other_protocols, encrypted)
        others.set()
    assert all(stream.result() == ["item 0", "item 1"] for stream in streams)
    assert len(lines) == 1


def _ask_by_other_protocols(encrypted: OnePort) -> None:
    with encrypted.channel() as channel:
        stub = GRPCInferenceServiceStub(channel)
        assert stub.ModelInfer(message(), timeout=20).outputs[0].contents.fp32_contents == [1.5]
    with encrypted.http() as client:
        answer = client.post("/v2/models/echo/infer", json=fp32([1.5]))
        assert (answer.http_version, answer.status_code) == ("HTTP/1.1", 200)
    with encrypted.websocket("/v2/models/streaming/stream") as socket:
        socket.send(json.dumps(text(parameters={"items": 1})))
        assert json.loads(socket.recv(timeout=20))["outputs"][0]["data"] == ["item 0"]


def test_client_certificate_has_same_names_over_each_protocol(encrypted: OnePort) -> None:
    names = set()
    for client in (encrypted.http(), encrypted.http2()):
        with client:
            body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
            names.add(client.post("/v2/models/who/infer", json=body).json()["outputs"][0]["data"][0])
    assert names == {"127.0.0.1,localhost"} or names == {"localhost,127.0.0.1"}


def test_triton_clients_share_a_port(plain: Running) -> None:
    for library in (tritonclient.grpc, tritonclient.http):
        client = library.InferenceServerClient(f"127.0.0.1:{plain.http_port}")

        client.close()


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_curl_gets_same_response_over_each_protocol(plain: Running, version: str) -> None:
    url = f"{plain.url}/v2/models/echo/infer"
    found = subprocess.run(
        ["curl", "-sS", version, "-w", "\n%{http_version} %{http_code}", url, "-d", json.dumps(fp32([1.5]))],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    body, _, line = found.stdout.rpartition("\n")
    assert line == ("1.1 200" if version == "--http1.1" else "2 200")
    assert json.loads(body)["outputs"][0]["data"] == [1.5]


@pytest.mark.parametrize("path", ["/v2", "/docs", "/openapi.json", "/v2/models/echo", "/v2/nothing"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_responses_equal_http_1(plain: Running, http2: httpx.Client, method: str, path: str) -> None:
    old = httpx.request(method, f"{plain.url}{path}")
    new = http2.request(method, path)
    assert new.http_version == "HTTP/2"
    hop = {"connection", "transfer-encoding", "date"}
    assert (new.status_code, new.content) == (old.status_code, old.content)
    assert [*new.headers.keys() - hop] == [*old.headers.keys() - hop]


def test_body_without_length(http2: httpx.Client) -> None:
    body = json.dumps(fp32([1.5] * 10_000)).encode()
    pieces = (body[at : at + 1000] for at in range(0, len(body), 1000))
    answer = http2.post("/v2/models/echo/infer", content=pieces)
    assert answer.status_code == 200
    assert len(answer.json()["outputs"][0]["data"]) == 10_000


def test_large_body_and_large_response(http2: httpx.Client) -> None:
    """More than the windows of a stream and of a connection, and than what is counted as it arrives."""
    values = [1.5] * 1_200_000
    answer = http2.post("/v2/models/echo/infer", json=fp32(values))
    assert answer.status_code == 200
    assert answer.json()["outputs"][0]["data"] == values


def test_oversized_body(plain: Running, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b" " * 6_000_001)
    url = f"{plain.url}/v2/models/echo/infer"
    command = ["curl", "-sS", "--http2-prior-knowledge", "-w", "\n%{http_code}", url, "--data-binary"]
    found = subprocess.run(
        [*command, f"@{tmp_path / 'body'}"], capture_output=True, text=True, check=True, timeout=20
    )
    body, _, status = found.stdout.rpartition("\n")
    assert status == "413"
    assert "6000000" in json.loads(body)["error"]


def test_authority_is_host(http2: httpx.Client) -> None:
    """A page with a rebound name reads nothing, as over HTTP/1."""
    assert http2.get("/v2", headers={"host": "evil.example"}).status_code == 403
    answer = http2.post("/v2/models/echo/infer", json=fp32([1.5]), headers={"host": "evil.example"})
    assert answer.status_code == 403


def test_equal_ports_are_shared(start, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    free = Running(folder)
    free.stop()
    port = str(free.http_port)
    server = start(folder, "--http-port", port, "--grpc-port", port)
    assert server.grpc_port == server.http_port == free.http_port
    with grpc.insecure_channel(server.grpc) as channel:
        assert GRPCInferenceServiceStub(channel).ModelInfer(message(), timeout=20).outputs


def test_certificate_only_for_grpc_is_an_error(start, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "who", "who.Who", WHO)
    files = Authority(tmp_path / "files").issue("server")
    (folder / "settings.json").write_text(json.dumps({"_custom_grpc_server_settings": files}))
    server = start(folder, "--one-port", wait=False)
    assert server.process.wait(20) == 1
    assert "one port has one certificate, that of _custom_rest_server_settings" in server.text()
