"""Links of the README and of docs/ lead to files and headings that exist; every page of docs/ is in the site."""

import re
from collections.abc import Iterator
from functools import cache
from inspect import ismodule
from pathlib import Path
from typing import Any

import pytest
import yaml

import inferstream
from scripts.english import gauge

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]

FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
ITEM = re.compile(r"^ *([-*]|\d+\.) ")


@cache
def prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return FENCE.sub("", page.read_text())


def slug(heading: str) -> str:
    """The anchor of a heading, as mkdocs and the viewers of repositories make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in HEADING.findall(prose(page))}


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_relative_links_resolve_to_files_and_headings(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if DOCS in page.parents:
            assert target.is_relative_to(DOCS), f"{link} leads out of the site"
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_heading_anchors_are_unique(page: Path) -> None:
    slugs = [slug(heading) for heading in HEADING.findall(prose(page))]
    if page.parent != ROOT:  # the changelog repeats its headings for each version
        assert len(slugs) == len(set(slugs))


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r": ([\w/-]+\.md)$", navigation, re.MULTILINE)
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=names(sorted(DOCS.rglob("*.md"))))
def test_lists_follow_a_blank_line(page: Path) -> None:
    """Python-Markdown, unlike the viewers of repositories, takes such a list for a part of the paragraph before it."""
    previous = ""
    for line in prose(page).splitlines():
        if ITEM.match(line) and previous and not ITEM.match(previous) and not previous.startswith(" "):
            pytest.fail(f"no blank line before: {line}")
        previous = line


def test_every_documented_module_exists() -> None:
    found = 0
    for page in sorted((DOCS / "reference").glob("*.md")):
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE):
            found += 1
            parts = name.split(".")
            candidates = [ROOT.joinpath(*parts[:length]) for length in (len(parts), len(parts) - 1)]
            assert any(base.with_suffix(".py").exists() or base.is_dir() for base in candidates), name
    assert found


def test_reference_has_every_public_name() -> None:
    text = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = {name.rpartition(".")[2] for name in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)}
    for members in re.findall(r" {6}members: \[(.+)\]", text):
        shown.update(members.split(", "))
    modules = {name for name in inferstream.__all__ if ismodule(getattr(inferstream, name))}
    assert set(inferstream.__all__) - modules - set(vars(inferstream.errors)) <= shown


def test_only_the_generator_writes_report_figures() -> None:
    """A second place would keep those of an older run."""
    written = re.compile(
        "<!-- written by make bench-report -->.*<!-- end of what make bench-report writes -->", re.S
    )
    report = written.search((ROOT / "docs/contributing/measurements.md").read_text())
    assert report is not None
    assert "LitServe" in report[0]
    for page in PAGES:
        rest = written.sub("", page.read_text())
        assert not [line for line in rest.splitlines() if "LitServe" in line and re.search(r"\d µs", line)], (
            page
        )
        works = re.findall(r"^\| ((?:REST|SSE|gRPC)[^|]*per (?:request|token|message)) \|", report[0], re.M)
        assert not [
            line for line in rest.splitlines() if line.startswith(tuple(f"| {work} |" for work in works))
        ]


KINDS = {"Get started": "start", "Tutorial": "tutorial", "Guides": "guide", "Concepts": "concept"}
LONGEST = {"start": 700, "guide": 700, "tutorial": 700, "concept": 1000}
GENERATED = {"cli.md", "settings.md", "metrics.md", "options.md"}
BLOCK = re.compile(r"^ *```\w", re.MULTILINE)
TEACHING = ("guide", "tutorial")


def kinds(entries: list[Any], kind: str = "") -> Iterator[tuple[str, str]]:
    """Each page of the navigation, and its kind."""
    for entry in entries:
        [(title, content)] = entry.items()
        if isinstance(content, str):
            yield content, kind
        else:
            yield from kinds(content, kind or KINDS.get(title, title.lower()))


KIND = dict(kinds(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))


def words(page: str) -> int:
    """The words of a page outside blocks and comments, and without the lines of tables."""
    return len(re.findall(r"\S*\w\S*", gauge.prose(DOCS / page)))


@pytest.mark.parametrize("page", [page for page, kind in KIND.items() if kind in LONGEST])
def test_tutorials_and_concepts_are_short(page: str) -> None:
    longest = (
        1800 if page == "plugin-guide.md" else 950 if page == "troubleshooting.md" else LONGEST[KIND[page]]
    )
    assert words(page) <= longest


@pytest.mark.parametrize("page", [page for page, kind in KIND.items() if kind in TEACHING])
def test_guides_show_code_within_ten_lines(page: str) -> None:
    lines = (DOCS / page).read_text().splitlines()
    assert any(BLOCK.match(line) for line in lines[:12]), page


def test_guides_have_a_code_block_per_150_words() -> None:
    pages = [page for page, kind in KIND.items() if kind in TEACHING]
    blocks = sum(len(BLOCK.findall((DOCS / page).read_text())) for page in pages)
    assert blocks * 150 >= sum(map(words, pages))


def test_user_documentation_has_at_most_55_000_words() -> None:
    pages = [page for page, kind in KIND.items() if kind != "contributing" and page not in GENERATED]
    assert sum(words(page) for page in pages) <= 55_000


def test_at_most_ten_code_blocks_are_not_run() -> None:
    excused = [page for page in PAGES for _ in re.findall("<!-- not run", page.read_text())]
    assert len(excused) <= 10, names(excused)


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_pages_install_from_a_clone(page: Path) -> None:
    """The package is on no index."""
    assert not re.search(r"pip install (?:-\S+ )*[\"']?inferstream", page.read_text())
