"""The stub of an app: mypy accepts it and its user without the app's code, and rejects wrong arguments."""

import subprocess
import sys
from pathlib import Path

import pytest

import inferstream
from inferstream.plugins.tools.stub.run import run

ROOT = Path(__file__).parents[2]

USER = """
from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
from inferstream import Depends
from stub import App, AsyncApp, Color, Parts, Point, User


async def numbers() -> AsyncIterator[int]:
    yield 1


async def main() -> None:
    async with AsyncApp("http://127.0.0.1:8080", timeout=5) as app:
        three: int = await app.add(1, b=2)
        point: Point = await app.shift(Point(1), Color.BLUE, "down")
        parts: Parts = await app.parts("a b")
        text: str = await app.greet_all([User(name="x")], {"by": 1})
        array = await app.scale(np.ones((1, 3), np.float32))
        print(three, point, parts.head, text, array.shape)
        async for token in app.generate("a", n=2):
            print(token.upper())
        async for total in app.total(numbers(), start=three):
            print(total + 1)


def blocking() -> None:
    with App("http://127.0.0.1:8080") as app:
        for total in app.total([1, 2]):
            print(total + 1)
        print(app.add(1) + app.summed(range(3)))


def served(number: int = Depends(blocking)) -> int:
    return number
"""

WRONG = """
from stub import App, Color

app = App("http://127.0.0.1:8080")
app.add("x")
app.add()
app.add(1, c=2)
app.shift({"x": 1})
app.other("red")
app.nope()
for token in app.generate("a"):
    token + 1
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("stub") / "stub.py"
    assert run(str(ROOT / "tests" / "client_app.py"), file) == 0
    return file


def mypy(folder: Path, *files: str) -> subprocess.CompletedProcess[str]:
    cache = folder.parent / "mypy"
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), *files]
    package = str(Path(inferstream.__file__).parents[1])
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": package, "MYPYPATH": package}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=300)


def test_mypy_accepts_valid_and_rejects_invalid_stub_calls(stub: Path) -> None:
    (stub.parent / "user.py").write_text(USER)
    (stub.parent / "wrong.py").write_text(WRONG)
    accepted = mypy(stub.parent, "stub.py", "user.py")
    assert accepted.returncode == 0, accepted.stdout
    rejected = mypy(stub.parent, "wrong.py").stdout
    lines = [line.split(":")[1] for line in rejected.splitlines() if ": error:" in line]
    assert lines == ["5", "6", "7", "8", "9", "10", "12"], rejected
