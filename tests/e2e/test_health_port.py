"""Health at the metrics port, for probes that have neither a key nor a client certificate."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from tests.certificates import Authority
from tests.serving import Running, eventually, started_once, text, write_model
from tests.unit.server.test_actions import KEYS, entry

LIVE, READY = "/v2/health/live", "/v2/health/ready"
SETTINGS: dict[str, dict[str, Any]] = {
    "keys": {"keys_file": "keys.json"},
    "client certificates": {"mutual": ("rest", "grpc")},
    "client certificates of gRPC": {"mutual": ("grpc",)},
    "keys and client certificates": {"keys_file": "keys.json", "mutual": ("rest", "grpc"), "tls": True},
    "front ends": {"keys_file": "keys.json", "mutual": ("rest",), "frontends": 2},
}


def settings_of(
    root: Path, mutual: tuple[str, ...] = (), tls: bool = False, **settings: Any
) -> dict[str, Any]:
    authority = Authority(root)
    encrypted = authority.issue("server")
    demanding = {**encrypted, "ssl_ca_certs": str(authority.pem)}
    ports = {f"_custom_{port}_server_settings": demanding for port in mutual}
    return {**settings, **ports, **({"_custom_metrics_server_settings": encrypted} if tls else {})}


@pytest.fixture(scope="module")
def server_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    def start(kind: str) -> Running:
        root = tmp_path_factory.mktemp("health")
        write_model(root / "models", "echo", "faulty_models.Echo")
        (root / "keys.json").write_text(json.dumps({"version": 1, "keys": [entry("right", ["metrics"])]}))
        (root / "models" / "settings.json").write_text(json.dumps(settings_of(root, **SETTINGS[kind])))
        return Running(root / "models")

    with started_once(start) as of:
        yield of


def probe(running: Running, path: str, tls: bool = False, **headers: str) -> httpx.Response:
    """The answer to a kubelet, which verifies no certificate and has neither a key nor a certificate."""
    url = f"http{'s' if tls else ''}://127.0.0.1:{running.metrics_port}{path}"
    return httpx.get(url, verify=False, headers=headers, timeout=20)


@pytest.mark.parametrize("kind", SETTINGS)
def test_probe_needs_no_credentials(server_of: Callable[[str], Running], kind: str) -> None:
    running, tls = server_of(kind), SETTINGS[kind].get("tls", False)
    assert probe(running, LIVE, tls).json() == {"live": True}
    assert probe(running, READY, tls).json() == {"ready": True, "live": True}
    assert probe(running, READY, tls, host="10.0.0.7:8082").status_code == 200
    assert probe(running, READY, tls, authorization="Bearer wrong").status_code == 200


@pytest.mark.parametrize("kind", [kind for kind, given in SETTINGS.items() if "keys_file" in given])
def test_only_health_is_open(server_of: Callable[[str], Running], kind: str) -> None:
    running, tls = server_of(kind), SETTINGS[kind].get("tls", False)
    for path in (
        "/metrics",
        "/metrics/load",
        "/v2/load",
        "/v2",
        "/v2/models",
        "/v2/models/echo/ready",
        "/health",
    ):
        assert probe(running, path, tls).status_code == 401, path
    key = {"authorization": f"Bearer {KEYS['right']}"}
    assert probe(running, "/metrics", tls, **key).status_code == 200
    assert probe(running, "/v2/models/echo/ready", tls, **key).status_code == 404


@pytest.mark.parametrize("kind", [kind for kind, given in SETTINGS.items() if "mutual" in given])
def test_other_ports_demand_client_certificate(server_of: Callable[[str], Running], kind: str) -> None:
    running, ports = server_of(kind), SETTINGS[kind]["mutual"]
    if "rest" in ports:
        with pytest.raises(httpx.TransportError):
            httpx.get(f"https://127.0.0.1:{running.http_port}{LIVE}", verify=False)
    if "grpc" in ports:
        trusted = (running.folder.parent / "ca.pem").read_bytes()
        channel = grpc.secure_channel(running.grpc, grpc.ssl_channel_credentials(trusted))
        with channel, pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=10)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_stopping_server_is_alive_but_not_ready(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    running = Running(folder, INFERSTREAM_SHUTDOWN_DELAY="5")
    try:
        running.begin_stop()
        eventually(lambda: probe(running, READY).status_code == 503)
        assert probe(running, LIVE).status_code == 200
        assert running.infer("echo", text()).status_code == 200
    finally:
        assert running.stop() == 0, running.text()


@pytest.mark.parametrize("opened", [False, True])
def test_open_metrics_need_no_key(tmp_path: Path, opened: bool) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    (tmp_path / "keys.json").write_text(json.dumps({"version": 1, "keys": [entry("right", ["metrics"])]}))
    (folder / "settings.json").write_text(
        json.dumps({"keys_file": "keys.json", "allow_open_metrics": opened})
    )
    running = Running(folder)
    try:
        for path in ("/metrics", "/metrics/load", "/v2/load"):
            assert probe(running, path).status_code == (200 if opened else 401)
            assert httpx.get(f"{running.url}{path}").status_code == 401, "the REST port asks for a key"
        page = {"origin": "https://elsewhere.example"}
        assert probe(running, "/metrics", **page).status_code in (401, 403)
    finally:
        assert running.stop() == 0, running.text()
