"""One name has one meaning: names of classes, retired words, the glossary and the imports of types."""

import ast
import re
from pathlib import Path

from scripts.house import patterns
from scripts.house.circles import circles
from scripts.house.source import sources

ROOT = Path(__file__).parents[2]
FILES = sources(ROOT / "inferstream")

PUBLIC = {"face"}
"""Retired words that a published interface has: `CallInfo.face`."""


def test_class_names_are_unique() -> None:
    assert patterns.doubles(FILES) == {}


def test_names_use_no_retired_words() -> None:
    assert {file: names for file, names in patterns.retired(FILES).items() if set(names) - PUBLIC} == {}


def test_retired_word_is_found_in_a_name() -> None:
    for name in ("found", "_found", "face", "log_follower", "FACES", "_follow"):
        assert patterns.RETIRED.fullmatch(name.lower()), name
    for name in ("not_found", "surface", "following", "gateway"):
        assert not patterns.RETIRED.fullmatch(name), name


def test_no_cycles_consist_only_of_type_imports() -> None:
    # The extension API imports its names on first use; what it says to type checkers is no import of the core.
    assert circles([file for file in FILES if not file.name.startswith("ext/")]) == []


def test_module_docstrings_start_with_a_noun_or_verb() -> None:
    relative = re.compile(r"(What|Where|How|Which|When|Whether)\b")
    begun = {file.name: ast.get_docstring(file.tree) for file in FILES}
    assert [name for name, said in begun.items() if not said or relative.match(said)] == []


def test_glossary_has_at_most_thirty_words() -> None:
    lines = (ROOT / "docs" / "contributing" / "glossary.md").read_text().splitlines()
    words = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]
    assert 10 < len(words) <= 30
    assert words == sorted(words)
