"""The pages on plug-ins show the packages that the tests use, file by file."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from inferstream.ext import Extension

from .blocks import blocks_of
from .sandbox import ROOT

PACKAGES = ROOT / "tests" / "packages"
PAGES = {"shout": ROOT / "docs" / "extending.md", "tenants": ROOT / "docs" / "plugin-guide.md"}
SHOWN = {
    package: {block.file: block.text for block in blocks_of(page) if block.file is not None}
    for package, page in PAGES.items()
}
"""The files of each page. The last block counts of a file that a page builds in steps."""

FILES = [
    (package, str(file.relative_to(PACKAGES / package)))
    for package in PAGES
    for file in sorted((PACKAGES / package).rglob("*"))
    if file.suffix in (".py", ".toml")
]


@pytest.mark.parametrize(("package", "file"), FILES)
def test_page_shows_every_package_file(package: str, file: str) -> None:
    assert SHOWN[package][file] == (PACKAGES / package / file).read_text()


@pytest.mark.parametrize("package", PAGES)
def test_package_builds_in_documented_folder(package: str, tmp_path: Path) -> None:
    for file, text in SHOWN[package].items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    command = "import setuptools.build_meta as b; b.build_wheel('dist')"
    built = subprocess.run(
        [sys.executable, "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert built.returncode == 0, built.stderr


def test_reference_lists_every_field_and_examples_exist() -> None:
    text = PAGES["shout"].read_text()
    rows = {name for row in re.findall(r"^\| (`.*?) \|", text, re.M) for name in re.findall(r"`(\w+)`", row)}
    assert {field.name for field in fields(Extension)} - {"name"} <= rows
    for path in re.findall(r"`(inferstream/[\w/]+\.py)`", text):
        assert (ROOT / path).exists(), path
