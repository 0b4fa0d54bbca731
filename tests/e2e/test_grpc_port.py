"""The gRPC port of a server without grpcio, its options, and values of `grpc_engine` that are gone."""

import json
import os
from pathlib import Path

import grpc
import httpx
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.certificates import Authority
from tests.serving import Running, fp32, write_model

MISSING = 'raise ModuleNotFoundError("No module named \'grpc\'", name="grpc")\n'


@pytest.fixture
def without_grpcio(tmp_path: Path) -> dict[str, str]:
    """The environment of processes that cannot import the library."""
    package = tmp_path / "missing" / "grpc"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(MISSING)
    return {"PYTHONPATH": os.pathsep.join((str(package.parent), os.environ.get("PYTHONPATH", "")))}


def models(folder: Path, **settings: object) -> Path:
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "streaming", "faulty_models.Streaming")
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def message(model: str) -> ModelInferRequest:
    made = ModelInferRequest(model_name=model)
    made.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1.5)
    return made


def calls(channel: grpc.Channel) -> None:
    """A unary and a streaming call."""
    stub = GRPCInferenceServiceStub(channel)
    assert stub.ModelInfer(message("echo"), timeout=20).outputs[0].contents.fp32_contents == [1.5]
    assert len([*stub.ModelStreamInfer(iter([message("streaming")]), timeout=20)]) == 3


@pytest.mark.parametrize("settings", [{}, {"parallel_workers": 2}, {"frontends": 2}], ids=str)
def test_server_without_grpcio_serves_rest_and_grpc(
    start, tmp_path: Path, without_grpcio: dict[str, str], settings: dict
) -> None:
    server = start(models(tmp_path / "models", **settings), within=60, **without_grpcio)
    assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200
    assert server.infer("echo", fp32([1.5])).status_code == 200
    for number in range(4):  # each on a connection of its own, as front ends share them out
        with grpc.insecure_channel(server.grpc, [("test.number", number)]) as channel:
            calls(channel)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"_custom_grpc_server_settings": {"grpc.server_handshake_timeout_ms": 5000}},
            '_custom_grpc_server_settings: "grpc.server_handshake_timeout_ms" is unknown to the gRPC port',
        ),
        ({"grpc_engine": "grpcio"}, "grpc_engine: grpcio serves no port any more"),
    ],
    ids=["unknown argument", "grpcio"],
)
def test_grpcio_only_settings_abort_startup_with_one_line(
    start, tmp_path: Path, settings: dict, said: str
) -> None:
    server = start(models(tmp_path / "models", **settings), wait=False)
    assert server.process.wait(60) == 1
    [line] = server.text().splitlines()
    assert line.startswith(f"error: {said}")


def test_auto_is_served_with_one_warning(start, tmp_path: Path) -> None:
    server = start(models(tmp_path / "models", frontends=2, grpc_engine="auto"), within=60)
    with grpc.insecure_channel(server.grpc) as channel:
        calls(channel)
    assert server.text().count("grpc_engine: auto means native") == 1, server.text()


def test_encrypted_key_ciphers_and_optional_client_certificate(start, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    options = {**authority.issue("server"), "ssl_ca_certs": str(authority.pem), "ssl_cert_reqs": 1}
    key = load_pem_private_key(Path(options["ssl_keyfile"]).read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right"))
    Path(options["ssl_keyfile"]).write_bytes(locked)
    options |= {"ssl_keyfile_password": "right", "ssl_ciphers": "ECDHE+AESGCM"}
    server: Running = start(models(tmp_path / "models", _custom_grpc_server_settings=options))
    client = authority.issue("client")
    chain = [Path(client[name]).read_bytes() for name in ("ssl_keyfile", "ssl_certfile")]
    for shown in ([], chain):
        credentials = grpc.ssl_channel_credentials(authority.pem.read_bytes(), *shown)
        with grpc.secure_channel(server.grpc, credentials) as channel:
            calls(channel)
