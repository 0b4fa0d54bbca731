"""The table of vulnerabilities in docs/contributing/hardening.md: each class has a row, and its tests exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "contributing" / "hardening.md"
SUITE = sorted(f"tests/cve/{path.name}" for path in (ROOT / "tests" / "cve").glob("test_*.py"))

CVE = re.compile(r"CVE-\d{4}-\d{4,}|GHSA(?:-[a-z0-9]{4}){3}")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def rows() -> dict[str, list[str]]:
    """The cells of each row by its class."""
    section = PAGE.read_text().partition("\n## Classes of vulnerabilities\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines[1:]}


ROWS = rows()


def tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def is_there(path: str, name: str) -> bool:
    """Whether a test that a page names is there, or a file of tests."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return (ROOT / path).is_file() and (
        not name or name in {each.name for each in tree(path).body if isinstance(each, functions)}
    )


def cves_of(path: str) -> set[str]:
    """What a file of the suite says that it is about."""
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CVES":
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{path} names no CVEs")


@pytest.mark.parametrize("row", ROWS)
def test_rows_state_mitigation_and_tests_exist(row: str) -> None:
    found, here, tests = ROWS[row]
    assert here.endswith(".")
    named = TEST.findall(tests)
    assert "`".join(tests.split("`")[1::2]) == "`".join(
        f"{path}::{name}" if name else path for path, name in named
    )
    for each in named:
        assert is_there(*each), each
    suites = [path for path, _ in named if path in SUITE]
    assert len(suites) == 1, "each class has a file of the suite"
    assert set(CVE.findall(found)) <= cves_of(suites[0])
    assert CVE.findall(found) or found == "no known CVE"


@pytest.mark.parametrize("path", SUITE)
def test_every_cve_test_file_is_in_table(path: str) -> None:
    listed = {cve for found, _, tests in ROWS.values() if f"`{path}`" in tests for cve in CVE.findall(found)}
    assert listed == cves_of(path)


def test_no_cve_class_is_removed() -> None:
    assert len(ROWS) == 30
