"""When a server is ready: all its models, one of them, or none."""

from pathlib import Path

import httpx
import pytest

from tests.serving import Running, eventually, fp32, write_model

BROKEN = "class Broken:\n    pass\n"


def status(server: Running) -> int:
    return httpx.get(f"{server.url}/v2/health/ready").status_code


@pytest.mark.parametrize(
    ("variables", "models", "expected"),
    [
        ({}, ("good",), 200),
        ({}, ("good", "bad"), 503),
        ({"MLSERVER_STRICT_READINESS": "false"}, ("good", "bad"), 200),
        ({"MLSERVER_STRICT_READINESS": "false"}, ("bad",), 503),
        ({}, (), 200),
        ({"MLSERVER_EMPTY_REGISTRY_READINESS": "false"}, (), 503),
        ({"INFERSTREAM_EMPTY_REGISTRY_READINESS": "false"}, ("good",), 200),
        ({"INFERSTREAM_STRICT_READINESS": "false", "INFERSTREAM_FRONTENDS": "2"}, ("good", "bad"), 200),
    ],
)
def test_readiness_follows_settings(
    tmp_path: Path, variables: dict[str, str], models: tuple[str, ...], expected: int
) -> None:
    (tmp_path / "models").mkdir()
    for name in models:
        code = None if name == "good" else BROKEN
        write_model(
            tmp_path / "models", name, "faulty_models.Echo" if code is None else "broken.Broken", code
        )
    server = Running(tmp_path / "models", **variables)
    try:
        eventually(lambda: status(server) == expected, 10)
        assert "unknown" not in server.text()
    finally:
        server.stop()


def test_server_becomes_ready_with_its_first_model(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    server = Running(tmp_path / "models", INFERSTREAM_EMPTY_REGISTRY_READINESS="false")
    try:
        assert status(server) == 503
        write_model(tmp_path / "models", "late", "faulty_models.Echo")
        assert httpx.post(f"{server.url}/v2/repository/models/late/load").status_code == 200
        assert status(server) == 200
    finally:
        server.stop()


@pytest.mark.parametrize("processes", ["0", "1"])
def test_log_level_applies_to_all_processes(tmp_path: Path, processes: str) -> None:
    write_model(tmp_path, "models/good", "faulty_models.Echo")
    server = Running(tmp_path / "models", "--workers", processes, MLSERVER_LOG_LEVEL="error")
    try:
        assert "INFO" not in server.text()
        assert " loaded model " not in server.text()
    finally:
        server.stop()


def test_empty_version_is_none(tmp_path: Path) -> None:
    write_model(tmp_path, "models/good", "faulty_models.Echo", name="good")
    server = Running(tmp_path / "models", MLSERVER_MODEL_VERSION="")
    try:
        assert httpx.get(f"{server.url}/v2/models/good").json()["versions"] == []
        assert "model_version" not in server.infer("good", fp32([1.0])).json()
    finally:
        server.stop()
