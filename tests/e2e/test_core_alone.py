"""The core serves V2 without plug-ins: the cases of oip-conformance, over REST and gRPC."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.distributions import write_core, write_installed
from tests.serving import Running

ROOT = Path(__file__).parents[2]

OF_PLUGINS = {
    "the server has no statistics: 404",
    "the server has no text generation: 400",
    "the server has no ModelStatistics: UNIMPLEMENTED: Method not found!",
    "ModelStreamInfer returns the MLServer type",
}
"""Why cases about statistics, text generation and Triton's format of streams are skipped: plug-ins serve them."""


def conformance(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "conformance")}
    command = [sys.executable, "-m", "oip_conformance", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("core")
    write_installed(root / "site")
    assert conformance("--models-for", "inferstream", str(root / "models")).returncode == 0
    running = Running(root / "models", PYTHONPATH=str(root / "site"))
    yield running
    assert running.stop() == 0


def test_all_protocol_cases_pass(server: Running) -> None:
    done = conformance(server.url, "--grpc", server.grpc, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["failed"]) == (0, 0), done.stdout
    assert found["passed"] >= 265
    assert {case["reason"] for case in found["skipped"]} == OF_PLUGINS


def test_no_plugin_is_installed(server: Running, tmp_path: Path) -> None:
    site = str(server.folder.parent / "site")
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "from inferstream.extensions.discovery import extensions; print([*extensions()])",
        ],
        env={**os.environ, "PYTHONPATH": site},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.stdout.strip() == "[]", found.stderr


def test_core_package_differs_by_its_extensions(tmp_path: Path) -> None:
    write_core(tmp_path)
    whole, core = (tomllib.loads((folder / "pyproject.toml").read_text()) for folder in (ROOT, tmp_path))
    assert whole["project"]["entry-points"].pop("inferstream.extensions")
    core["project"].setdefault("entry-points", {})
    assert core == whole
    assert not (tmp_path / "inferstream" / "plugins").exists()
