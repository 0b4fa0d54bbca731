"""A server as process 1, without rights, on a file system that it cannot write, and under a clock that jumps."""

import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.disks import small_disk
from tests.serving import eventually, fp32, text, write_model

CLOCKS = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))

ORPHANS = """
import subprocess
from inferstream import MLModel

class Orphans(MLModel):
    def predict(self, payload):
        subprocess.run(["sh", "-c", "sleep 600 & true &"])
        return self.encode_response(["left"])
"""

READ_ONLY = """
mount --make-rprivate / && mount --bind "$1" "$1" || exit 77
mount -o remount,bind,ro "$1" && mount -o remount,bind,ro / || exit 77
touch "$1/written" / 2>/dev/null && exit 77
shift
cd / && exec setpriv --bounding-set -all --inh-caps -all --no-new-privs "$@"
"""


def isolated(*command: str) -> list[str]:
    """The command in its own namespaces; skips if the user cannot create any."""
    # Only a process that is forked is the first one of a PID namespace, but unshare does not pass SIGTERM on to it.
    forked = ["--fork", "--kill-child=SIGTERM"] if "--pid" in command else []
    unshared = ["unshare", *forked, *command]
    if subprocess.run([*unshared, "true"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces cannot be made here")
    return unshared


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Echo", "Slow"):
        write_model(tmp_path / "models", name.lower(), f"faulty_models.{name}")
    return tmp_path / "models"


def test_pid_1_leaves_no_zombies(start, folder: Path) -> None:
    write_model(folder, "orphans", "orphans.Orphans", ORPHANS)
    server = start(folder, under=isolated("--pid", "--mount-proc"), INFERSTREAM_PARALLEL_WORKERS="1")
    [first] = server.workers()  # in the eyes of `unshare` the server is the only child

    def children() -> dict[int, str]:
        """Process ids and states of what the server has to reap."""
        pids = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        statuses = {int(pid): Path(f"/proc/{pid}/status").read_text() for pid in pids}
        return {pid: re.findall(r"State:\s+(\w)", status)[0] for pid, status in statuses.items()}

    before = children()
    assert len(before) == 1
    assert server.infer("orphans", text()).status_code == 200
    os.kill(next(iter(before)), signal.SIGKILL)
    eventually(lambda: server.infer("echo", fp32([1.0])).status_code == 200, 60)
    eventually(lambda: len(children()) == 1 and "Z" not in children().values(), 30)
    assert set(children()).isdisjoint(before)
    os.kill(first, signal.SIGTERM)  # `unshare` does not pass it on


def test_unprivileged_read_only_container_serves(serve, folder: Path) -> None:
    read_only = isolated("--mount", "sh", "-c", READ_ONLY, "sh", str(folder.parent))
    server = serve(folder, under=read_only)
    server.probe()
    assert httpx.get(f"{server.url}/metrics").status_code == 200


def test_a_full_disk_serves(serve, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1M") as disk:
        write_model(disk / "models", "echo", "faulty_models.Echo")
        with (disk / "rest").open("wb", buffering=0) as rest, pytest.raises(OSError, match="space"):
            while True:
                rest.write(bytes(4096))
        server = serve(tmp_path / "models", target=str(disk / "models"), TMPDIR=str(disk))
        server.probe()
        assert server.stop() == 0, server.text()


@pytest.mark.skipif(not CLOCKS, reason="libfaketime is not installed")
def test_clock_jump_does_not_move_time_limit(serve, folder: Path, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0")
    server = serve(
        folder,
        LD_PRELOAD=str(CLOCKS[0]),
        FAKETIME_TIMESTAMP_FILE=str(clock),
        FAKETIME_NO_CACHE="1",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
    )
    with ThreadPoolExecutor() as pool:
        for jump in ("+1h", "-1h"):
            limited = text(id=f"limited{jump}", parameters={"seconds": 60})
            ending = pool.submit(server.infer, "slow", limited, headers={"X-Request-Timeout": "3"})
            patient = text(id=f"patient{jump}", parameters={"seconds": 3})
            lasting = pool.submit(server.infer, "slow", patient, headers={"X-Request-Timeout": "60"})
            eventually(lambda jump=jump: server.noted(f"start limited{jump}"), 20)
            eventually(lambda jump=jump: server.noted(f"start patient{jump}"), 20)
            clock.write_text(jump)
            assert ending.result().status_code == 504
            assert lasting.result().status_code == 200
    server.probe()
