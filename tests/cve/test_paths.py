"""Paths and links that lead out of a folder: in archives, in names of models and in targets of requests."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cve.audited import Audited
from tests.faults.test_repository import load
from tests.serving import write_model
from tests.unit.repository.test_archives import ATTACKS, made

CVES = ("CVE-2026-27905", "CVE-2026-24208", "CVE-2026-24209", "CVE-2023-31036", "CVE-2025-4517")


@pytest.fixture(scope="module")
def unpacking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Audited, Path]]:
    """A server with a model for each hostile archive, and one that is well."""
    root = tmp_path_factory.mktemp("archives")
    unpacked = root / "unpacked"
    outside = unpacked / "outside"  # beside the folder that an archive is unpacked into
    outside.mkdir(parents=True)
    (outside / "victim").write_text("untouched")
    (outside / "victim").chmod(0o600)
    folder = root / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    for number, attack in enumerate(ATTACKS):
        parameters = {"environment_tarball": "environment.tar.gz"}
        model = write_model(
            folder, f"m{number}", "faulty_models.Echo", name=f"m{number}", parameters=parameters
        )
        made(model / "environment.tar.gz", ATTACKS[attack](outside))
    (folder / "settings.json").write_text(json.dumps({"environments_dir": str(unpacked)}))
    running = Audited(folder)
    yield running, outside
    assert running.stop() == 0, running.text()


@pytest.mark.parametrize("attack", ATTACKS)
def test_unpacking_stays_inside_folder(unpacking: tuple[Audited, Path], attack: str) -> None:
    server, outside = unpacking
    found = load(server, f"m{[*ATTACKS].index(attack)}")
    assert found.status_code >= 400
    assert 'its member "' in found.text + server.text()
    assert os.listdir(outside) == ["victim"]
    assert (outside / "victim").read_text() == "untouched"
    assert (outside / "victim").stat().st_mode & 0o777 == 0o600
    server.probe()


NAMES = (
    "../../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "....//....//etc/passwd",
    "..%5c..%5cetc%5cpasswd",
    "%252e%252e%252fetc%252fpasswd",
    "..%c0%af..%c0%afetc/passwd",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "file:%2f%2f%2fetc%2fpasswd",
    "models%00.json",
)
PLACES = (
    "/v2/models/{}",
    "/v2/models/{}/infer",
    "/v2/models/{}/stats",
    "/v2/models/echo/versions/{}/infer",
    "/v2/repository/models/{}/load",
    "/v2/repository/models/{}/unload",
    "/v2/docs/{}",
    "/v2/models/{}/docs",
    "/docs/{}",
    "/page/{}",
    "/proto/{}",
    "/static/{}",
    "/v1/models/{}",
    "/v2/requests/{}",
    "/{}",
)


@pytest.mark.parametrize("name", NAMES)
def test_request_paths_are_not_file_paths(watched: Audited, name: str) -> None:
    """Over a socket, because clients of HTTP tidy paths up."""
    for place in PLACES:
        for method in ("GET", "POST"):
            with socket.create_connection(("127.0.0.1", watched.http_port), timeout=20) as opened:
                target = place.format(name).encode()
                opened.sendall(
                    b"%b %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
                    % (method.encode(), target)
                )
                answer = b"".join(iter(lambda opened=opened: opened.recv(65_536), b""))
            assert b"root:" not in answer, target
            assert not answer.startswith(b"HTTP/1.1 5") or b" 501 " in answer[:20], (target, answer)
    assert watched.done("open") == []
