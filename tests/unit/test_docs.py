"""Links of the README and of docs/ lead to files and headings that exist; every page of docs/ is in the site."""

import re
from functools import cache
from pathlib import Path

import pytest

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
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
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
def test_anchors_of_headings_are_unique(page: Path) -> None:
    slugs = [slug(heading) for heading in HEADING.findall(prose(page))]
    if page.parent != ROOT:  # the changelog repeats its headings for each version
        assert len(slugs) == len(set(slugs))


def test_every_page_is_in_the_navigation_of_the_site() -> None:
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


def test_every_module_of_the_reference_exists() -> None:
    found = 0
    for page in sorted((DOCS / "reference").glob("*.md")):
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.MULTILINE):
            found += 1
            parts = name.split(".")
            candidates = [ROOT.joinpath(*parts[:length]) for length in (len(parts), len(parts) - 1)]
            assert any(base.with_suffix(".py").exists() or base.is_dir() for base in candidates), name
    assert found


def test_figures_of_the_report_are_written_by_it_alone() -> None:
    """A second place would keep those of an older run."""
    written = re.compile(
        "<!-- written by make bench-report -->.*<!-- end of what make bench-report writes -->", re.S
    )
    report = written.search((ROOT / "docs/performance.md").read_text())
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
