"""`server infer` over TLS: a certificate nobody vouches for is refused, unless any is trusted."""

import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
import pytest

from inferstream.protos import dataplane_pb2 as messages
from inferstream.protos.pool import SERVICE
from tests.serving import SERVER, fp32

ANSWER = b'{"model_name":"m","outputs":[]}'


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    folder = tmp_path_factory.mktemp("certificate")
    key, found = folder / "key.pem", folder / "certificate.pem"
    names = ["-subj", "/CN=elsewhere", "-addext", "subjectAltName=DNS:elsewhere.example"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*made, "-keyout", str(key), "-out", str(found)], check=True, capture_output=True)
    return key, found


class Door(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def rest(certificate: tuple[Path, Path]) -> Iterator[str]:
    key, found = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(found, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def remote(certificate: tuple[Path, Path]) -> Iterator[str]:
    key, found = certificate
    server = grpc.server(futures.ThreadPoolExecutor(2))
    answer = grpc.unary_unary_rpc_method_handler(
        lambda request, context: messages.ModelInferResponse(model_name=request.model_name),
        request_deserializer=messages.ModelInferRequest.FromString,
        response_serializer=messages.ModelInferResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"ModelInfer": answer}),))
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), found.read_bytes())])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_certificate_is_unverified_only_with_flag(
    rest: str, remote: str, tmp_path: Path, transport: str
) -> None:
    (tmp_path / "in").write_text(json.dumps(fp32([1.0])))
    files = ["-i", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    url = {"rest": rest, "grpc": remote}[transport]
    command = [*SERVER, "infer", "-m", "m", "-u", url, "-t", transport, "--use-ssl", "-r", "0", *files]
    for flags, code in (([], 1), (["--insecure"], 0)):
        ran = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == code, ran.stderr + (tmp_path / "out").read_text()
