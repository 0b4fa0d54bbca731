"""The pages of the tutorial, one after another in one folder, as a reader follows them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import eventually

from .blocks import blocks_of
from .sandbox import ROOT, Failed, Sandbox

TUTORIAL = ROOT / "docs" / "tutorial"
SENT = re.compile(r"^reply: sent \d+ of \d+ words\n", re.M)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    folder = tmp_path / "clean"
    folder.mkdir()
    sandbox = Sandbox(folder, "docs/tutorial")
    yield sandbox
    sandbox.stop()


def test_the_pages_run_in_order_in_one_folder(sandbox: Sandbox) -> None:
    pages = sorted(TUTORIAL.glob("*.md"))
    assert [page.name[0] for page in pages] == ["1", "2", "3", "4", "5", "6"]
    for page in pages:
        for block in blocks_of(page):
            try:
                sandbox.run(block)
            except Failed as error:
                raise Failed(f"{page.name}: {error}") from None


def test_a_client_that_leaves_stops_the_generator(sandbox: Sandbox) -> None:
    """The second page shows two lines of the server's terminal, which the sandbox does not compare."""
    blocks = blocks_of(TUTORIAL / "2-stream.md")
    for block in blocks:
        sandbox.run(block)
        if "fails" in block.said:
            break
    eventually(lambda: len(SENT.findall(sandbox.written())) == 2, 10)
    whole, left = SENT.findall(sandbox.written())
    shown = [block.text for block in blocks if SENT.fullmatch(block.text)]
    assert whole == shown[0]
    assert left != whole  # how many words it has sent depends on the machine
    assert len(shown) == 2
