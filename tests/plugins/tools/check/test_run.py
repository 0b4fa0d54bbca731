"""`server check` without hypothesis."""

import os
import subprocess
import sys
from pathlib import Path

MISSING = 'raise ModuleNotFoundError("No module named \'hypothesis\'", name="hypothesis")\n'


def test_missing_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "hypothesis.py").write_text(MISSING)
    ran = subprocess.run(
        [sys.executable, "-m", "inferstream", "check", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 1
    assert (
        ran.stderr
        == 'error: server check needs hypothesis, which is not installed\nhint: pip install "hypothesis>=6.120"\n'
    )
