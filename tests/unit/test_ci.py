"""What CI says of its parts: what was skipped and why, and what a machine cannot have."""

import os
import subprocess
import sys
from pathlib import Path

from tests.programs import write_program

ROOT = Path(__file__).parents[2]

SKIPPING = """
import pytest

@pytest.mark.skipif(RUN == "first", reason="needs a moon")
def test_moon(): ...

@pytest.mark.parametrize("star", [1, 2])
def test_stars(star):
    pytest.skip("it is day")
"""

WHOLE = """
import pytest

if RUN == "first":
    pytest.skip("needs a sun", allow_module_level=True)

def test_sun(): ...
"""


def run(folder: Path, which: str, *flags: str) -> str:
    (folder / "test_sky.py").write_text(SKIPPING.replace("RUN", repr(which)))
    (folder / "test_sun.py").write_text(WHOLE.replace("RUN", repr(which)))
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # each of the processes would import those of the other tests
        "PYTHONPATH": str(ROOT),
        "TEST_REPORTS": str(folder / "reports"),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "xdist",
        "-p",
        "tests.skips",
        "-c",
        os.devnull,
        "--rootdir",
        ".",
        *flags,
        ".",
    ]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


def test_skips_are_printed_with_reasons_unless_run_elsewhere(
    tmp_path: Path,
) -> None:
    (tmp_path / "reports").mkdir()
    said = run(tmp_path, "first", "-n", "2")
    for line in (
        "2  it is day (test_sky.py)",
        "1  needs a moon (test_sky.py)",
        "1  needs a sun (test_sun.py)",
    ):
        assert f"    {line}\n" in said
    run(tmp_path, "second")
    whole = subprocess.run(
        [sys.executable, "-m", "tests.skips", tmp_path / "reports"], cwd=ROOT, capture_output=True, text=True
    )
    assert whole.stdout == "Skipped in every run:\n    2  it is day (test_sky.py)\n"


def test_unavailable_parts_are_named_and_do_not_stop_the_run(tmp_path: Path) -> None:
    for name, does in (("id", "echo 0"), ("apt-get", "exit 100")):
        write_program(tmp_path / name, f"#!/bin/sh\n{does}\n")
    path = f"{tmp_path}:{os.environ['PATH']}"
    ran = subprocess.run([ROOT / ".ci" / "install"], env={"PATH": path}, capture_output=True, text=True)
    assert ran.returncode == 0
    assert "chromium cannot be installed.\nprometheus cannot be installed.\n" in ran.stdout
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    ran = subprocess.run([ROOT / ".ci" / "install"], env={"PATH": path}, capture_output=True, text=True)
    assert ran.returncode == 0
    assert ran.stdout.startswith("Only root installs, by apt-get: not installed are chromium prometheus ")
