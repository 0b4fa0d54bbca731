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
def test_warning_aborts_strict_startup(
    tmp_path: Path, model: dict[str, Any], server: dict[str, Any], named: str
) -> None:
    write_model(tmp_path, "m", "model.Model", CODE, parameters={"version": "1"}, **model)
    (tmp_path / "settings.json").write_text(json.dumps(server))
    ended = started(tmp_path, *PORTS, "--strict")
    assert ended.returncode == 1
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("error: --strict: ")]
    assert named in line


def test_exclusive_settings_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"frontends": 2, "max_memory": "1GB"}')
    assert started(tmp_path, *PORTS).returncode == 2


@pytest.mark.parametrize("name", ["http", "grpc", "metrics"])
def test_used_port_names_its_flag(tmp_path: Path, start: Any, name: str) -> None:
    write_model(tmp_path, "m", "model.Model", CODE)
    running = start(tmp_path)
    taken = {"http": running.http_port, "grpc": running.grpc_port, "metrics": running.metrics_port}[name]
    others = [port for port in PORTS if name not in port]
    flag = "--port" if name == "http" else f"--{name}-port"
    ended = started(tmp_path, *others, f"{flag}={taken}")
    assert ended.returncode == 1
    assert ended.stderr.endswith(f"\nhint: choose another one with {flag}\n")


def test_a_model_that_fails_ends_a_strict_start(tmp_path: Path) -> None:
    write_model(tmp_path, "good", "model.Model", CODE)
    write_model(tmp_path, "bad", "model.Missing", CODE)
    ended = started(tmp_path, *PORTS, "--strict")
    assert ended.returncode == 1
    assert (
        'error: Model bad did not load: implementation "model.Missing": module model has no class'
        in ended.stderr
    )
    assert "gRPC " not in ended.stderr


def test_a_model_that_fails_is_named_at_the_end_of_a_start(tmp_path: Path, start: Any) -> None:
    write_model(tmp_path, "good", "model.Model", CODE)
    write_model(tmp_path, "bad", "model.Missing", CODE)
    said = start(tmp_path).text().partition("\ngRPC ")[2].splitlines()
    assert said[1].startswith(
        'error: 1 of 2 models failed to load: bad: implementation "model.Missing": module model has no class'
    )
    assert said[2].startswith(
        "hint: correct the code and start again; `--reload` loads saved files, `--strict` exits"
    )
