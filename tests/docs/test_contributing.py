"""CONTRIBUTING is short, and its worked change applies and passes the test that it brings."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
[CHANGE] = re.findall(r"```diff\n(.*?)```", TEXT, re.S)
CHANGED = re.findall(r"^\+\+\+ b/(.*)$", CHANGE, re.M)


def applied(folder: Path, *left_out: str) -> int:
    """The status of the change's own test on a copy of the tree, without the changes of some files."""
    exclude = [f"--exclude={name}" for name in left_out]
    for name in ("inferstream", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "responses"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    subprocess.run(["git", "apply", *exclude, "-"], cwd=folder, input=CHANGE, text=True, check=True)
    tests = [name for name in CHANGED if name.startswith("tests/")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=native", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "unit"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True).returncode


def test_worked_change_applies_and_its_test_detects_it(tmp_path: Path) -> None:
    package = [name for name in CHANGED if name.startswith("inferstream/")]
    assert applied(tmp_path / "all") == 0
    assert applied(tmp_path / "test", *package) == 1


def test_contributing_page_has_at_most_40_lines() -> None:
    assert len(TEXT.splitlines()) <= 40
