"""A part of the server starts in any environment, with the server's own code."""

import json
import subprocess
import sys
from pathlib import Path

import inferstream
from inferstream.server import bootstrap

PART = """
import gc, json, sys
import inferstream, own

def main(*numbers):
    print(json.dumps([numbers, inferstream.__file__, own.NAME, gc.isenabled(), sys.path[-1]]))
"""


def test_bootstrap_passes_numbers_and_prefers_its_own_packages(tmp_path: Path) -> None:
    environment, ours = tmp_path / "environment", tmp_path / "ours"
    for folder, name in ((environment, "environment"), (ours, "ours")):
        folder.mkdir()
        (folder / "own.py").write_text(f"NAME = {name!r}\n")
    (ours / "part.py").write_text(PART)
    package = Path(inferstream.__file__).parent
    script = "import sys, runpy; sys.path.insert(0, sys.argv[1]); sys.argv = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    given = ["part", str(package), json.dumps([str(ours), *sys.path[1:]]), "3", "14"]
    command = [sys.executable, "-c", script, str(environment), bootstrap.__file__, *given]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    numbers, file, name, collects, _ = json.loads(ran.stdout)
    assert numbers == [3, 14]
    assert (file, name, collects) == (f"{package}/__init__.py", "environment", True)
