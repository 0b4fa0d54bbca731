"""What processes hold, as the kernel tells it."""

import os
from pathlib import Path

import pytest

from inferstream.dataplane.residency import HOST
from inferstream.dataplane.workers import memory
from inferstream.dataplane.workers.memory import held_by, kills, proportional

NOBODY = 2**22 + 1
"""A number that no process has: Linux gives none above 2**22."""


def test_a_process_that_has_ended_holds_nothing() -> None:
    assert proportional(NOBODY) == 0
    assert held_by([], devices=False) == {HOST: 0}


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")
def test_memory_is_added_up_over_processes() -> None:
    own = held_by([os.getpid()], devices=False)[HOST]
    assert own > 2**20
    assert held_by([os.getpid(), NOBODY, os.getpid()], devices=False)[HOST] > 1.5 * own
    assert kills() >= 0


def test_devices_are_asked_where_they_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(memory, "memory_of_processes", lambda pids: asked.append(pids) or {"0": 5})
    monkeypatch.setattr(memory, "proportional", lambda pid: 7)
    assert held_by([1, 2], devices=True) == {HOST: 14, "0": 5}
    assert held_by([], devices=True) == {HOST: 0}
    assert held_by([1], devices=False) == {HOST: 7}
    assert asked == [[1, 2]]
