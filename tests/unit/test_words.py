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


def test_no_two_classes_have_one_name() -> None:
    assert patterns.doubles(FILES) == {}


def test_no_name_is_a_retired_word() -> None:
    assert {file: names for file, names in patterns.retired(FILES).items() if set(names) - PUBLIC} == {}


def test_a_retired_word_is_seen_in_a_name() -> None:
    for name in ("found", "_found", "face", "log_follower", "FACES", "_follow"):
        assert patterns.RETIRED.fullmatch(name.lower()), name
    for name in ("not_found", "surface", "following", "gateway"):
        assert not patterns.RETIRED.fullmatch(name), name


def test_no_files_import_each_other_for_types_alone() -> None:
    # The extension API imports its names on first use; what it says to type checkers is no import of the core.
    assert circles([file for file in FILES if not file.name.startswith("ext/")]) == []


def test_modules_say_what_they_are_by_a_noun_or_a_verb() -> None:
    relative = re.compile(r"(What|Where|How|Which|When|Whether)\b")
    begun = {file.name: ast.get_docstring(file.tree) for file in FILES}
    assert [name for name, said in begun.items() if not said or relative.match(said)] == []


def test_the_glossary_has_thirty_words_at_most() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    words = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]
    assert 10 < len(words) <= 30
    assert words == sorted(words)
