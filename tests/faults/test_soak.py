"""The soak, for seconds: every kind of client at once, beside killed workers and reloads."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_kills_and_reloads_lose_no_call() -> None:
    """One round. What the server keeps is compared by the long form, because caches fill for minutes."""
    soak = subprocess.run(
        [sys.executable, "-m", "scripts.soak", "--seconds", "10", "--rounds", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert soak.returncode == 0, soak.stdout + soak.stderr
    assert "nothing lost" in soak.stdout
