"""KServe's clients, which run in an environment of their own (`make grpc-clients`)."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.serving import Running

PYTHON = Path(os.environ.get("GRPC_CLIENTS", "nowhere")).resolve() / "kserve" / "bin" / "python"

ROWS = [[1.0, 2.0]]
EXPECTED: dict[str, dict[str, Any]] = {
    "v1": {
        "infer": {"predictions": ROWS},
        "explain": {"explanations": ROWS},
        "is_model_ready": True,
        "is_server_live": True,
        "is_server_ready": "UnsupportedProtocol",
        "close": None,
    },
    "v2": {
        "infer": ROWS,
        "explain": "UnsupportedProtocol",
        "is_model_ready": True,
        "is_server_live": True,
        "is_server_ready": True,
        "close": None,
    },
    "grpc": {
        "infer": ROWS,
        "is_model_ready": True,
        "is_server_live": True,
        "is_server_ready": True,
        "close": None,
    },
}
"""What each method of each client answers; `UnsupportedProtocol` is the client's own, who asks no server."""


@pytest.mark.skipif(
    not PYTHON.is_file(), reason="KServe's client is missing; `make grpc-clients` installs it"
)
def test_every_method(surface: Running) -> None:
    command = [PYTHON, Path(__file__).with_name("kserve_calls.py"), surface.url, surface.grpc]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    for name, client in json.loads(ran.stdout.splitlines()[-1]).items():
        assert set(client["methods"]) == set(client["answers"]), "a method without a row"
        assert client["answers"] == EXPECTED[name]
