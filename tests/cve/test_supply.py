"""Packages that somebody else releases: which versions are installed is written down."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]

CVES = ("CVE-2026-48710", "CVE-2024-34359", "CVE-2026-24486")

FLOORS = {"starlette": "1.0.1", "llama-cpp-python": "0.2.72", "jinja2": "3.1.6", "torch": "2.4"}
"""The first versions without a vulnerability that this suite names."""


def test_every_package_of_the_tests_is_pinned_exactly() -> None:
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    pinned = [line for line in lines if line]
    assert len(pinned) > 50
    assert [line for line in pinned if not re.fullmatch(r"[\w.-]+==[\w.+!-]+(?: *;.*)?", line)] == []


def test_no_requirement_allows_a_version_that_is_known_to_be_open() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    requirements = [Requirement(each) for each in (*project["dependencies"], *extras)]
    named = {canonicalize_name(each.name) for each in requirements}
    assert set(FLOORS) <= named
    assert "python-multipart" not in named
    for requirement in requirements:
        assert requirement.url is None, requirement
        if floor := FLOORS.get(canonicalize_name(requirement.name)):
            [least] = [each.version for each in requirement.specifier if each.operator == ">="]
            assert Version(least) >= Version(floor), requirement
