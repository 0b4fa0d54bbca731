"""The table of faults in docs/contributing/testing-the-server.md: each test that it names exists."""

import pytest

from tests.docs.test_cve_classes import ROOT, TEST, is_there

PAGE = ROOT / "docs" / "contributing" / "testing-the-server.md"
SECTION = PAGE.read_text().partition("\n## Faults\n")[2].partition("\n## ")[0]
ROWS = [line for line in SECTION.splitlines() if line.startswith("| ")][1:]


def test_no_fault_is_removed() -> None:
    assert len(ROWS) == 26


@pytest.mark.parametrize("row", ROWS)
def test_each_fault_has_a_test_or_reason(row: str) -> None:
    named = TEST.findall(row)
    assert named or "`make " in row or "| none: " in row
    for each in named:
        assert is_there(*each), each
