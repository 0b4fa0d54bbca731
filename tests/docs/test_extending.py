"""The page on packages of others shows the package that the tests use, file by file."""

import subprocess
import sys
from pathlib import Path

import pytest

from .blocks import blocks_of
from .sandbox import ROOT

PACKAGE = ROOT / "tests" / "packages" / "shout"
SHOWN = {
    block.file: block.text for block in blocks_of(ROOT / "docs" / "extending.md") if block.file is not None
}


@pytest.mark.parametrize(
    "file", ["pyproject.toml", *(f"shout/{each.name}" for each in PACKAGE.glob("shout/*.py"))]
)
def test_the_page_shows_each_file_of_the_package(file: str) -> None:
    assert SHOWN[file] == (PACKAGE / file).read_text()


def test_the_package_builds_in_the_folder_that_the_page_describes(tmp_path: Path) -> None:
    for file, text in SHOWN.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    command = "import setuptools.build_meta as b; b.build_wheel('dist')"
    built = subprocess.run(
        [sys.executable, "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert built.returncode == 0, built.stderr
