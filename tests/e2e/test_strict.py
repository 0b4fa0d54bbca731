"""`--strict` ends the start for each warning about the configuration."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.serving import SERVER, write_model

CODE = """
from inferstream import MLModel

class Model(MLModel):
    async def predict(self, payload):
        return payload
"""

PORTS = ["--http-port=0", "--grpc-port=0", "--metrics-port=0"]


def started(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [*SERVER, "start", str(folder), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("model", "server", "named"),
    [
        ({"splt": {"1": 100}}, {}, '"split"'),
        ({"split": {"1": 50, "3": 50}}, {}, "split names version 3"),
        ({"shadow": {"to": "3"}}, {}, "shadow names version 3"),
        ({}, {"max_boddy_bytes": 1}, '"max_body_bytes"'),
    ],
)
def test_a_warning_ends_a_strict_start(
    tmp_path: Path, model: dict[str, Any], server: dict[str, Any], named: str
) -> None:
    write_model(tmp_path, "m", "model.Model", CODE, parameters={"version": "1"}, **model)
    (tmp_path / "settings.json").write_text(json.dumps(server))
    ended = started(tmp_path, *PORTS, "--strict")
    assert ended.returncode == 1
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("error: --strict: ")]
    assert named in line


def test_settings_that_exclude_each_other_are_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"frontends": 2, "max_memory": "1GB"}')
    assert started(tmp_path, *PORTS).returncode == 2


@pytest.mark.parametrize("name", ["http", "grpc", "metrics"])
def test_a_port_in_use_names_its_flag(tmp_path: Path, start: Any, name: str) -> None:
    write_model(tmp_path, "m", "model.Model", CODE)
    running = start(tmp_path)
    taken = {"http": running.http_port, "grpc": running.grpc_port, "metrics": running.metrics_port}[name]
    others = [port for port in PORTS if name not in port]
    ended = started(tmp_path, *others, f"--{name}-port={taken}")
    assert ended.returncode == 1
    assert f"--{name}-port" in ended.stderr
