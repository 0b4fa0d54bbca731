"""Starting workers where the system refuses something: nothing is left behind."""

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from inferstream.dataplane.workers.frames import Start
from inferstream.dataplane.workers.process import InstanceMeters, WorkerProcess
from inferstream.processes.spawning import Program


def _refuse(*_: object) -> int:
    raise OSError(errno.EMFILE, "Too many open files")


def _open_files() -> set[str]:
    """What this process has open, by name and inode; others may close files of theirs at any time."""
    names = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own
            names.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return names


def _children() -> set[str]:
    """The processes that are this one's, those that ended and were not waited for among them."""
    return {
        pid
        for of_thread in Path("/proc/self/task").glob("*/children")
        for pid in of_thread.read_text().split()
    }


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ["ftruncate", "pidfd_open", "pipe"])
async def test_unstartable_worker_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, name: str, shared: bool
) -> None:
    before, children = _open_files(), _children()
    monkeypatch.setattr(os, name, _refuse)
    with pytest.raises(OSError, match="Too many"):
        WorkerProcess(
            Program("worker.py", sys.executable, {}),
            Start(False, False, None),
            InstanceMeters({}),
            shared=shared,
        )
    assert _open_files() <= before
    assert _children() <= children


async def test_process_exit_is_reported_once() -> None:
    process = WorkerProcess(
        Program("worker.py", "/bin/false", {}), Start(False, False, None), InstanceMeters({})
    )
    await process.ended.wait()
    assert process.how == "exited with status 1"
