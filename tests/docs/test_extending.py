"""The page on packages of others shows the package that the tests use, file by file."""

import pytest

from .blocks import blocks_of
from .sandbox import ROOT

PACKAGE = ROOT / "tests" / "packages" / "shout"
SHOWN = {
    block.file: block.text for block in blocks_of(ROOT / "docs" / "extending.md") if block.file is not None
}


@pytest.mark.parametrize(
    "file", ["pyproject.toml", *(f"shout/{each.name}" for each in PACKAGE.glob("shout/[a-z]*.py"))]
)
def test_the_page_shows_each_file_of_the_package(file: str) -> None:
    assert SHOWN[file] == (PACKAGE / file).read_text()
