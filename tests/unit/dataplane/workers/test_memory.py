"""What processes hold, as the kernel tells it."""

import os
from pathlib import Path

import pytest

from inferstream.dataplane.residency import HOST
from inferstream.dataplane.workers import memory
from inferstream.dataplane.workers.memory import count_oom_kills, measure_memory, proportional_set_size

NOBODY = 2**22 + 1
"""A number that no process has: Linux gives none above 2**22."""


def test_ended_process_holds_no_memory() -> None:
    assert proportional_set_size(NOBODY) == 0
    assert measure_memory([], devices=False) == {HOST: 0}


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")
def test_memory_is_summed_over_processes() -> None:
    own = measure_memory([os.getpid()], devices=False)[HOST]
    assert own > 2**20
    assert measure_memory([os.getpid(), NOBODY, os.getpid()], devices=False)[HOST] > 1.5 * own
    assert count_oom_kills() >= 0


def test_devices_are_queried_only_with_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(memory, "measure_processes", lambda pids: asked.append(pids) or {"0": 5})
    monkeypatch.setattr(memory, "proportional_set_size", lambda pid: 7)
    assert measure_memory([1, 2], devices=True) == {HOST: 14, "0": 5}
    assert measure_memory([], devices=True) == {HOST: 0}
    assert measure_memory([1], devices=False) == {HOST: 7}
    assert asked == [[1, 2]]
