"""The allocator's thresholds: what they change, and where nothing changes."""

import ctypes
import os
import subprocess
import sys

import pytest

from inferstream import allocator
from tests.allocation import PROBE, glibc


def kept(prepare: str, **environment: str) -> int:
    own = {name: value for name, value in os.environ.items() if name not in allocator.VARIABLES}
    code = f"{PROBE}\nfrom inferstream.allocator import keep_freed_memory\n{prepare}\nprint(kept())"
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**own, **environment}, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


@glibc
def test_freed_tensor_memory_is_retained() -> None:
    assert kept("keep_freed_memory()") > 24 * 2**20
    assert kept("") < 8 * 2**20


@glibc
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_MMAP_THRESHOLD_", "131072"),
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=131072"),
    ],
)
def test_environment_thresholds_are_kept(name: str, value: str) -> None:
    assert kept("keep_freed_memory()", **{name: value}) < 8 * 2**20


@glibc
def test_other_tunables_are_unchanged() -> None:
    assert kept("keep_freed_memory()", GLIBC_TUNABLES="glibc.rtld.optional_static_tls=512") > 24 * 2**20


def test_non_glibc_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in allocator.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    opened: list[object] = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: opened.append(name) or object())
    allocator.keep_freed_memory()
    assert opened == [None]


def test_non_linux_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail(f"opened {name}"))
    allocator.keep_freed_memory()
