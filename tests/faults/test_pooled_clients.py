"""A client with a pool of connections, while the server stops; and a dead worker beside a model that works."""

import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest

from tests.serving import Running, eventually, fp32, is_ready, text, write_model

PATHS = ["/v2/health/live", "/v2/models/streaming", "/nothing"]


def ask(connection: socket.socket, path: str) -> tuple[int, str]:
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    answer = HTTPResponse(connection)  # leaves the connection open, whatever the header says
    answer.begin()
    answer.read()
    return answer.status, answer.getheader("connection") or ""


@pytest.mark.parametrize("frontends", [1, 2])
def test_shutdown_responses_close_connections(
    start: Callable[..., Running], tmp_path: Path, frontends: int
) -> None:
    root = tmp_path / "models"
    write_model(root, "streaming", "faulty_models.Streaming")
    settings = {"frontends": frontends, "shutdown_delay": 2, "shutdown_grace": 1}
    (root / "settings.json").write_text(json.dumps(settings))
    server = start(root)
    address = ("127.0.0.1", server.http_port)
    with ExitStack() as opened:
        connect = lambda: opened.enter_context(socket.create_connection(address, timeout=10))  # noqa: E731
        pool, idle = {path: connect() for path in PATHS}, connect()
        assert {ask(connection, path)[1] for path, connection in pool.items()} | {ask(idle, PATHS[0])[1]} == {
            ""
        }
        server.begin_stop()
        eventually(lambda: not is_ready(f"{server.url}/v2/health/ready"))
        # The other front ends learn of the stop by the frame that makes them not ready.
        eventually(
            lambda: {httpx.get(f"{server.url}/v2/health/ready").status_code for _ in range(8)} == {503}
        )
        for path, connection in pool.items():
            status, kind = ask(connection, path)
            assert (status, kind) == (404 if path == "/nothing" else 200, "close")
            assert connection.recv(1) == b""
        assert idle.recv(1) == b"", "it is closed at the end of the delay"
    assert server.stop() == 0


def test_running_stream_continues_during_shutdown(start: Callable[..., Running], tmp_path: Path) -> None:
    root = tmp_path / "models"
    write_model(root, "streaming", "faulty_models.Streaming")
    server = start(root)
    body = text(id="s", parameters={"items": 20, "delay": 0.05})
    url = f"{server.url}/v2/models/streaming/generate_stream"
    with httpx.stream("POST", url, json=body, timeout=20) as response:
        lines = response.iter_lines()
        next(lines)
        server.begin_stop()
        assert sum(line.startswith("data:") for line in lines) >= 19
    assert server.stop() == 0


def test_dead_worker_makes_only_its_model_not_ready(start: Callable[..., Running], tmp_path: Path) -> None:
    root = tmp_path / "models"
    for name in ("a", "b"):
        write_model(root, name, "faulty_models.Echo", parameters={"inference_pool_gid": name})
    server = start(root, "--workers", "1")
    seen: set[int] = set()

    def lost() -> bool:
        seen.add(httpx.get(f"{server.url}/v2/health/ready").status_code)
        ready = [httpx.get(f"{server.url}/v2/models/{name}/ready").status_code for name in ("a", "b")]
        return sorted(ready) == [200, 503]

    os.kill(server.workers()[0], signal.SIGKILL)
    eventually(lost)
    eventually(lambda: {server.infer(name, fp32([1.0])).status_code for name in ("a", "b")} == {200})
    assert seen == {200}


def test_folder_is_served_through_root_of_other_process(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    """As KServe's modelcars link it. `/proc/self/root` of a process in this root is the same folder."""
    write_model(tmp_path / "car", "echo", "faulty_models.Echo")
    link = tmp_path / "models"
    link.symlink_to(f"/proc/{os.getpid()}/root{tmp_path}/car")
    server = start(link)
    assert server.infer("echo", fp32([1.0])).status_code == 200


def test_skipped_folders_are_logged(start: Callable[..., Running], tmp_path: Path) -> None:
    root = tmp_path / "models"
    write_model(root, "echo", "faulty_models.Echo")
    (tmp_path / "away").mkdir()
    (root / "away").symlink_to(tmp_path / "away")
    (root / "round").symlink_to(root)
    server = start(root)
    assert server.infer("echo", fp32([1.0])).status_code == 200
    assert "models/away: this link leads out of the repository" in server.text()
    assert "models/round: this link leads to a folder that it is in" in server.text()
