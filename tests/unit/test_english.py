"""The text of the project reads like the text of its field: see scripts/english."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.english import gauge


@pytest.mark.parametrize(("kind", "files"), [("docs", gauge.pages), ("docstrings", gauge.modules)])
def test_every_habit_is_within_its_bound(kind: str, files: Callable[[], list[Path]]) -> None:
    """`make english HABIT="a text, texts"` prints where a habit occurs."""
    assert [rate for rate in gauge.rates(files(), kind) if not rate.is_met] == []


def test_function_names_are_verbs() -> None:
    """`make english HABIT=names` prints those that are not."""
    rate = gauge.name_rate(gauge.modules())
    assert rate.is_met, rate


def test_gauge_counts_habits_and_participles(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("This is no `text`; that of a client's. <!-- is no -->\n```console\n$ is no\n```\n")
    found = {rate.name: rate.rate for rate in gauge.rates([page], "docs")}
    assert found["is no, are no, needs no"] == found["semicolons"] == found["that of, those of"] == 1000 / 8
    module = tmp_path / "module.py"
    module.write_text("class Call:\n    @property\n    def ended(self): ...\n\n    def told(self): ...\n")
    names, count = gauge.participles([module])
    assert ([name.split()[1] for name in names], count) == (["told"], 2)
