"""The types of the JavaScript client, checked by TypeScript. It lies in the folder that NODE_CLIENTS names."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("NODE_CLIENTS", "nowhere")).resolve()
COMPILER = FOLDER / "node_modules" / "typescript" / "bin" / "tsc"
OPTIONS = [
    "--noEmit",
    "--strict",
    "--target",
    "es2022",
    "--module",
    "nodenext",
    "--lib",
    "es2022,dom,dom.iterable",
]

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not COMPILER.is_file(),
    reason="needs Node and a folder, named by NODE_CLIENTS, in which npm has installed typescript",
)


def test_types_pass_strict_compiler() -> None:
    source = Path(__file__).with_name("javascript_types.mts")
    command = ["node", str(COMPILER), *OPTIONS, str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout
