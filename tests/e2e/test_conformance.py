"""This server against the sentences of the protocol, by `oip-conformance` and the models that it has for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.serving import Running

ROOT = Path(__file__).parents[2]
SKIPPED = {"the server has no ModelStatistics: UNIMPLEMENTED: Method not found!"}


def _conformance(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "conformance")}
    command = [sys.executable, "-m", "oip_conformance", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_has_no_differences(tmp_path: Path) -> None:
    models = tmp_path / "models"
    assert _conformance("--models-for", "inferstream", str(models)).returncode == 0
    server = Running(models)
    try:
        addresses = (server.url, "--grpc", server.grpc)
        ran = _conformance(*addresses, "--json")
    finally:
        server.stop()
    document = json.loads(ran.stdout)
    assert [case for case in document["cases"] if case["status"] == "failed"] == []
    assert {skip["reason"] for skip in document["skipped"]} <= SKIPPED
    assert ran.returncode == 0
