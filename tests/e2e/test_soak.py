"""The soak in short: some thousand calls over every door, with leaving clients, kills and reloads."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_nothing_is_lost_and_nothing_kept() -> None:
    command = [sys.executable, "-m", "scripts.soak", "--calls", "2500", "--rounds", "1", "--seed", "3"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == "nothing lost, nothing kept"
