"""TLS on every port: what works in plain works encrypted, and nobody else gets in."""

import asyncio
import json
import os
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import grpc
import httpx
import pytest
from httpx_sse import connect_sse
from websockets.asyncio.client import ClientConnection, connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.certificates import Authority
from tests.serving import Running, eventually, fp32, text, write_model

PORTS = ("rest", "metrics", "grpc")

WHO = '''
from inferstream import MLModel

class Who(MLModel):
    """Names its client."""

    async def predict(self, payload):
        return ",".join(payload.parameters.headers.identities)
'''


class Line:
    """A WebSocket over TLS, in one thread.

    The synchronous client of the library reads and writes in two, and OpenSSL loses data if they do so at once.
    """

    def __init__(self, url: str, trust: ssl.SSLContext) -> None:
        self._runner = asyncio.Runner()
        self._socket = self._runner.run(self._connect(url, trust))

    async def _connect(self, url: str, trust: ssl.SSLContext) -> ClientConnection:
        return await connect(url, ssl=trust)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._runner.close()

    def send(self, message: str) -> None:
        self._runner.run(self._socket.send(message))

    def recv(self, timeout: float) -> str | bytes:
        return self._runner.run(asyncio.wait_for(self._socket.recv(), timeout))

    def close(self, code: int = 1000, reason: str = "") -> None:
        self._runner.run(self._socket.close(code, reason))

    @property
    def close_code(self) -> int | None:
        return self._socket.close_code


class Encrypted:
    """A server with certificates, and clients that trust whom they should."""

    def __init__(self, root: Path, workers: int, mutual: bool, flags: tuple[str, ...] = ()) -> None:
        self.authority = Authority(root)
        self.files = self.authority.issue("server")
        self.client = self.authority.issue("client") if mutual else None
        options = {**self.files, **({"ssl_ca_certs": str(self.authority.pem)} if mutual else {})}
        folder = root / "models"
        for name in ("Echo", "Streaming"):
            write_model(folder, name.lower(), f"faulty_models.{name}")
        write_model(folder, "who", "who.Who", WHO)
        settings = {f"_custom_{port}_server_settings": options for port in PORTS}
        settings["_custom_rest_server_settings"] = {**options, "headers": [["X-Served-By", "us"]]}
        (folder / "settings.json").write_text(json.dumps({**settings, "parallel_workers": workers}))
        self.running = Running(folder, *flags)
        self.url = self.running.url.replace("http://", "https://")

    def trust(self, authority: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=authority or self.authority.pem)
        if self.client is not None:
            context.load_cert_chain(self.client["ssl_certfile"], self.client["ssl_keyfile"])
        return context

    def websocket(self, path: str) -> Line:
        return Line(self.url.replace("https", "wss") + path, self.trust())

    def http(self, client: dict[str, str] | None = None) -> httpx.Client:
        trust = self.trust()
        if client is not None:
            trust.load_cert_chain(client["ssl_certfile"], client["ssl_keyfile"])
        return httpx.Client(base_url=self.url, verify=trust, timeout=20)

    def channel(self, authority: Path | None = None) -> grpc.Channel:
        chain = () if self.client is None else (self.client["ssl_keyfile"], self.client["ssl_certfile"])
        files = (authority or self.authority.pem, *map(Path, chain))
        credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
        return grpc.secure_channel(self.running.grpc, credentials)

    def presented(self) -> bytes:
        """The certificate that a new connection gets to see."""
        with (
            socket.create_connection(("127.0.0.1", self.running.http_port)) as plain,
            self.trust().wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
        ):
            return encrypted.getpeercert(binary_form=True)


@pytest.fixture(scope="module")
def encrypted(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    found = Encrypted(tmp_path_factory.mktemp("tls"), workers, mutual=False)
    yield found
    assert found.running.stop() == 0, found.running.text()


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    found = Encrypted(tmp_path_factory.mktemp("mutual"), 0, mutual=True)
    yield found
    assert found.running.stop() == 0, found.running.text()


def message() -> ModelInferRequest:
    made = ModelInferRequest(model_name="echo")
    made.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1.5)
    return made


def test_requests_share_a_connection(encrypted: Encrypted) -> None:
    with encrypted.http() as client:
        lines = set()
        for size in (1, 1, 100_000, 1):
            answer = client.post("/v2/models/echo/infer", json=fp32([1.5] * size))
            assert answer.json()["outputs"][0]["data"] == [1.5] * size
            assert answer.headers["x-served-by"] == "us"
            lines.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
        assert client.get("/v2/health/ready").status_code == 200
        assert len(lines) == 1
    assert f"REST     https://127.0.0.1:{encrypted.running.http_port}" in encrypted.running.text()
    metrics = f"https://127.0.0.1:{encrypted.running.metrics_port}/metrics"
    assert httpx.get(metrics, verify=encrypted.trust()).status_code == 200


def test_disconnect_ends_stream(encrypted: Encrypted) -> None:
    with encrypted.http() as client:
        with connect_sse(
            client, "POST", "/v2/models/streaming/infer_stream", json=text(parameters={"items": 20})
        ) as events:
            assert len([*events.iter_sse()]) == 20
        endless = text(id="tls-left", parameters={"items": 10**6, "delay": 0.01})
        with client.stream("POST", "/v2/models/streaming/infer_stream", json=endless) as stream:
            next(stream.iter_lines())
    eventually(lambda: encrypted.running.noted("finally tls-left"))


@pytest.mark.parametrize("way", ["cut", "close_notify", "half-close"])
def test_disconnect_ends_request(encrypted: Encrypted, way: str) -> None:
    """Over TLS a client that half-closes has left, whether it says so or not."""
    body = json.dumps(text(id=f"tls-{way}", parameters={"before": 60})).encode()
    head = f"POST /v2/models/streaming/infer_stream HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    plain = socket.create_connection(("127.0.0.1", encrypted.running.http_port))
    with encrypted.trust().wrap_socket(plain, server_hostname="127.0.0.1") as line:
        line.sendall(head.encode() + body)
        eventually(lambda: encrypted.running.noted(f"start tls-{way}"))
        if way == "close_notify":
            assert line.unwrap().recv(1) == b""
        elif way == "half-close":
            line.shutdown(socket.SHUT_WR)
        if way != "cut":
            eventually(lambda: encrypted.running.noted(f"finally tls-{way}"))
    eventually(lambda: encrypted.running.noted(f"finally tls-{way}"))
    assert "Traceback" not in encrypted.running.text()
    with encrypted.http() as client:
        assert client.get("/v2/health/ready").status_code == 200


def test_websockets(encrypted: Encrypted) -> None:
    with encrypted.websocket("/v2/models/streaming/stream") as line:
        line.send(json.dumps(text(id="1", parameters={"items": 2})))
        assert [json.loads(line.recv(10))["id"] for _ in range(3)] == ["1", "1", "1"]


def test_websocket_closes_with_its_code(encrypted: Encrypted) -> None:
    with encrypted.websocket("/v2/models/streaming/stream") as line:
        line.close(4000, "enough")
    assert line.close_code == 4000
    assert "NotImplementedError" not in encrypted.running.text()


def test_grpc(encrypted: Encrypted) -> None:
    with encrypted.channel() as channel:
        stub = GRPCInferenceServiceStub(channel)
        assert stub.ModelInfer(message(), timeout=10).outputs[0].contents.fp32_contents == [1.5]
        streamed = message()
        streamed.model_name = "streaming"
        assert len([*stub.ModelStreamInfer(iter([streamed]), timeout=10)]) == 3


def test_plaintext_is_refused(encrypted: Encrypted) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{encrypted.running.url}/v2/health/live")
    with grpc.insecure_channel(encrypted.running.grpc) as channel, pytest.raises(grpc.RpcError) as refused:
        GRPCInferenceServiceStub(channel).ModelInfer(message(), timeout=10)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_old_versions_are_refused(encrypted: Encrypted) -> None:
    for port in (encrypted.running.http_port, encrypted.running.grpc_port):
        old = encrypted.trust()
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1"):
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", port)) as plain, pytest.raises((ssl.SSLError, OSError)):
            old.wrap_socket(plain, server_hostname="127.0.0.1")


def test_unknown_certificate_is_not_trusted(encrypted: Encrypted, tmp_path: Path) -> None:
    stranger = Authority(tmp_path).pem
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{encrypted.url}/v2/health/live", verify=encrypted.trust(stranger))
    with encrypted.channel(stranger) as channel, pytest.raises(grpc.RpcError):
        GRPCInferenceServiceStub(channel).ModelInfer(message(), timeout=10)


def test_new_certificate_is_served_without_restart(encrypted: Encrypted) -> None:
    before = encrypted.presented()
    with encrypted.channel() as channel:
        stub = GRPCInferenceServiceStub(channel)
        stub.ModelInfer(message(), timeout=10)
        renewed = encrypted.authority.issue("renewed")
        for option, file in encrypted.files.items():
            os.replace(renewed[option], file)
        eventually(lambda: encrypted.presented() != before)
        stub.ModelInfer(message(), timeout=10)  # connections that are there go on
    with encrypted.channel() as channel:
        GRPCInferenceServiceStub(channel).ModelInfer(message(), timeout=10)

    def presented() -> str:
        return ssl.get_server_certificate(("127.0.0.1", encrypted.running.grpc_port))

    eventually(lambda: ssl.PEM_cert_to_DER_cert(presented()) == encrypted.presented())


def test_client_certificates_are_required_with_configured_ca(mutual: Encrypted, tmp_path: Path) -> None:
    with mutual.http() as client:
        assert client.post("/v2/models/echo/infer", json=fp32([1.5])).status_code == 200
    with mutual.channel() as channel:
        GRPCInferenceServiceStub(channel).ModelInfer(message(), timeout=10)
        made = message()
        made.model_name = "who"
        response = GRPCInferenceServiceStub(channel).ModelInfer(made, timeout=10)
        assert response.outputs[0].contents.bytes_contents == [b"127.0.0.1,localhost"]
    with mutual.http() as client:
        for path in ("infer", "generate"):  # with ASGI and without
            response = client.post(f"/v2/models/who/{path}", json=fp32([1.5]))
            assert "127.0.0.1,localhost" in response.text
    late = datetime.now(UTC) - timedelta(days=1)
    for files in (
        None,
        Authority(tmp_path).issue("stranger"),
        mutual.authority.issue("expired", not_after=late),
    ):
        own, mutual.client = mutual.client, files
        try:
            with mutual.http() as client, pytest.raises(httpx.TransportError):
                client.get("/v2/health/live")
            with mutual.channel() as channel, pytest.raises(grpc.RpcError):
                GRPCInferenceServiceStub(channel).ModelInfer(message(), timeout=10)
        finally:
            mutual.client = own


@pytest.mark.parametrize("port", PORTS)
def test_invalid_file_aborts_startup_with_one_line(tmp_path: Path, port: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    setting = f"_custom_{port}_server_settings"
    (folder / "settings.json").write_text(json.dumps({setting: {"ssl_certfile": "gone.pem"}}))
    running = Running(folder, wait=False)
    assert running.process.wait(20) == 1
    (line,) = [line for line in running.text().splitlines() if not line.startswith("20")]
    assert line == f"error: {setting}: ssl_certfile {folder / 'gone.pem'}: No such file or directory"


def test_certificate_owns_its_requests(mutual: Encrypted) -> None:
    path = "/v2/models/streaming/infer_stream"
    endless = {"items": 10**6, "delay": 0.01}
    other = mutual.authority.issue("other", hosts=("other.example",))
    with mutual.http() as owner, mutual.http(other) as stranger:
        held = text(id="tls-held", parameters=endless)
        with owner.stream("POST", path, json=held, headers={"prefer": "resumable"}) as stream:
            id = next(line for line in stream.iter_lines() if line.startswith("id: "))
        last = {"last-event-id": id.removeprefix("id: ")}
        assert stranger.delete(path, headers=last).status_code == 410
        assert stranger.delete("/v2/requests/tls-held").status_code == 404
        assert owner.delete(path, headers=last).status_code == 200
        eventually(lambda: mutual.running.noted("finally tls-held"))
        with mutual.websocket("/v2/models/streaming/stream") as line:
            line.send(json.dumps(text(id="tls-socket", parameters=endless)))
            line.recv(10)
            assert stranger.delete("/v2/requests/tls-socket").status_code == 404
            assert owner.delete("/v2/requests/tls-socket").json()["cancelled"] == 1
        eventually(lambda: mutual.running.noted("finally tls-socket"))
