"""The JavaScript client: its own tests under Node, its types, and the route that serves it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serving import Running

HERE = Path(__file__).parent
CLIENT = HERE.parents[1] / "inferstream" / "plugins" / "page" / "client"


def serve(tmp_path_factory: pytest.TempPathFactory, **environment: str) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("javascript") / "app"
    folder.mkdir()
    shutil.copy(HERE / "javascript_app.py", folder / "app.py")
    running = Running(folder, **environment)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    yield from serve(tmp_path_factory)


@pytest.fixture(scope="module")
def resumable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose streams are all resumable, and wait long for their clients."""
    environment = {"INFERSTREAM_RESUMABLE_STREAMS": "true", "INFERSTREAM_RESUME_TIMEOUT": "600"}
    yield from serve(tmp_path_factory, **environment)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
def test_client_passes_its_own_tests(functions: Running, resumable: Running) -> None:
    command = ["node", "--test", "--test-reporter=spec", str(HERE / "javascript.test.mjs")]
    environment = {**os.environ, "SERVER": functions.url, "RESUMABLE": resumable.url}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_server_serves_the_client(functions: Running) -> None:
    found = httpx.get(f"{functions.url}/inferstream.js")
    assert found.status_code == 200
    assert found.headers["content-type"] == "text/javascript; charset=utf-8"
    assert found.content == (CLIENT / "inferstream.js").read_bytes()
