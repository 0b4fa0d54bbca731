"""GPUs by name, from a driver's list that a script stands for."""

import os
from pathlib import Path

import pytest

from inferstream.processes.devices import visible_devices
from tests.programs import write_program

WHOLE = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-c6d4f1ef-42e4-7de3-91c7-45d71c87eb3f)
"""
DIVIDED = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)
  MIG 1g.5gb      Device  1: (UUID: MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-c6d4f1ef-42e4-7de3-91c7-45d71c87eb3f)
"""


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tool of a driver, which tests write."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "nvidia-smi"


def write(driver: Path, listed: str, code: int = 0) -> None:
    write_program(driver, f"#!/bin/sh\ncat <<'END'\n{listed}END\nexit {code}\n")


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        (WHOLE, ("0", "1")),
        (
            DIVIDED,
            ("MIG-c7384736-a75d-5afc-978f-d2f1294409fd", "MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d", "1"),
        ),
        ("No devices found.\n", ()),
    ],
)
def test_driver_lists_gpus_and_mig_instances(driver: Path, listed: str, names: tuple[str, ...]) -> None:
    write(driver, listed)
    assert visible_devices() == names


def test_failing_driver_has_no_devices(driver: Path) -> None:
    write(driver, WHOLE, 9)
    assert visible_devices() == ()


@pytest.mark.parametrize(("own", "names"), [("1, MIG-a", ("1", "MIG-a")), ("", ())])
def test_cuda_visible_devices_takes_precedence(
    driver: Path, monkeypatch: pytest.MonkeyPatch, own: str, names: tuple[str, ...]
) -> None:
    write(driver, WHOLE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", own)
    assert visible_devices() == names
