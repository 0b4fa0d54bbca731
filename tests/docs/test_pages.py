"""Each command and each program of each page does what the page says, in a clean folder, from top to bottom."""

import re
from pathlib import Path

import pytest

from .blocks import blocks_of
from .sandbox import ROOT, Sandbox
from .uncovered import UNCOVERED

DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md"))),
    *sorted(ROOT.glob("examples*/**/README.md")),
]
WITH_BLOCKS = [str(page.relative_to(ROOT)) for page in PAGES if blocks_of(page)]


@pytest.mark.parametrize("page", [page for page in WITH_BLOCKS if page not in UNCOVERED])
def test_the_blocks_of_a_page_do_what_it_says(page: str, tmp_path: Path) -> None:
    folder = tmp_path / "clean"
    folder.mkdir()
    sandbox = Sandbox(folder, page)
    try:
        for block in blocks_of(ROOT / page):
            sandbox.run(block)
    finally:
        sandbox.stop()


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_the_tests_that_an_excuse_names_are_there(page: str) -> None:
    for block in blocks_of(ROOT / page):
        for name in re.findall(r"tests/[\w/]+(?:\.py)?", block.said.get("not run", "")):
            assert (ROOT / name).exists(), f"{page}, line {block.line}: {name}"


def test_the_list_of_pages_that_are_not_covered_is_as_short_as_it_can_be() -> None:
    assert set(UNCOVERED) <= set(WITH_BLOCKS)
