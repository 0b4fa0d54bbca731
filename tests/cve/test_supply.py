"""Packages that somebody else releases: which versions are installed is written down."""

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.cve.dependencies import FLOORS, VENDORED

ROOT = Path(__file__).parents[2]

CVES = ("CVE-2026-48710", "CVE-2024-34359", "CVE-2026-24486")


def test_every_package_of_the_tests_is_pinned_exactly() -> None:
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    pinned = [line for line in lines if line]
    assert len(pinned) > 50
    assert [line for line in pinned if not re.fullmatch(r"[\w.-]+==[\w.+!-]+(?: *;.*)?", line)] == []


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    return [Requirement(each) for each in (*project["dependencies"], *extras)]


def test_every_dependency_of_every_extra_has_one_row() -> None:
    named = {canonicalize_name(each.name) for each in requirements()}
    assert named == FLOORS.keys()
    assert "python-multipart" not in named


def test_requirements_exclude_vulnerable_versions() -> None:
    for requirement in requirements():
        assert requirement.url is None, requirement
        if floor := FLOORS[canonicalize_name(requirement.name)].lowest:
            [least] = [each.version for each in requirement.specifier if each.operator == ">="]
            assert Version(least) >= Version(floor), requirement


@pytest.mark.parametrize("name", FLOORS)
def test_rows_have_date_and_advisories_of_minimum_version(name: str) -> None:
    row = FLOORS[name]
    assert date.fromisoformat(row.checked) >= date(2026, 11, 28)
    assert bool(row.lowest) == bool(row.advisories)


def test_vendored_copies_match_listed_dependencies() -> None:
    assert VENDORED.keys() <= FLOORS.keys()
