"""Each command and each program of each page does what the page says, in a clean folder, from top to bottom."""

import re
from pathlib import Path

import pytest

from .blocks import blocks_of
from .sandbox import ROOT, Missing, Sandbox
from .uncovered import UNCOVERED

DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(DOCS.rglob("*.md"))),
    *sorted(ROOT.glob("examples*/**/README.md")),
]
WITH_BLOCKS = [str(page.relative_to(ROOT)) for page in PAGES if blocks_of(page)]
ALONE = [page for page in WITH_BLOCKS if page not in UNCOVERED and not page.startswith("docs/tutorial/")]
"""Pages that start in an empty folder. Those of the tutorial continue in one folder: see test_tutorial.py."""


@pytest.mark.parametrize("page", ALONE)
def test_code_blocks_of_page_work(page: str, tmp_path: Path) -> None:
    folder = tmp_path / "clean"
    folder.mkdir()
    sandbox = Sandbox(folder, page)
    try:
        for block in blocks_of(ROOT / page):
            sandbox.run(block)
    except Missing as missing:
        pytest.skip(str(missing))
    finally:
        sandbox.stop()


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_tests_named_by_exceptions_exist(page: str) -> None:
    for block in blocks_of(ROOT / page):
        for name in re.findall(r"tests/[\w/]+(?:\.py)?", block.said.get("not run", "")):
            assert (ROOT / name).exists(), f"{page}, line {block.line}: {name}"


def test_list_of_uncovered_pages_is_minimal() -> None:
    assert set(UNCOVERED) <= set(WITH_BLOCKS)
