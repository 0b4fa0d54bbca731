"""What processes hold, as the kernel tells it."""

import os
from pathlib import Path

import pytest

from inferstream.dataplane.residency import HOST
from inferstream.dataplane.workers import memory
from inferstream.dataplane.workers.memory import ProcessMemory, kills, proportional

NOBODY = 2**22 + 1
"""A number that no process has: Linux gives none above 2**22."""


def test_a_process_that_has_ended_holds_nothing() -> None:
    assert proportional(NOBODY) == 0
    assert ProcessMemory(devices=False)([]) == {HOST: 0}


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")
def test_memory_is_added_up_over_processes() -> None:
    own = ProcessMemory(devices=False)([os.getpid()])[HOST]
    assert own > 2**20
    assert ProcessMemory(devices=False)([os.getpid(), NOBODY, os.getpid()])[HOST] > 1.5 * own
    assert kills() >= 0


def test_devices_are_asked_where_they_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(memory, "memory_of_processes", lambda pids: asked.append(pids) or {"0": 5})
    monkeypatch.setattr(memory, "proportional", lambda pid: 7)
    assert ProcessMemory(devices=True)([1, 2]) == {HOST: 14, "0": 5}
    assert ProcessMemory(devices=True)([]) == {HOST: 0}
    assert ProcessMemory(devices=False)([1]) == {HOST: 7}
    assert asked == [[1, 2]]
