"""The sentences of the protocol, with their sources and test cases."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Sentence:
    """A sentence of the protocol.

    If clients cannot test it, it has no cases, and `untested` has the reason.
    """

    id: str
    source: str
    text: str
    cases: tuple[str, ...]
    untested: str = ""


def sentences() -> list[Sentence]:
    """Return all sentences in file order, with full URLs as sources."""
    tables = tomllib.loads((files(__package__) / "sentences.toml").read_text())
    return [
        Sentence(
            row["id"],
            address(row["source"], tables["sources"]),
            row["text"],
            tuple(row.get("cases", ())),
            row.get("untested", ""),
        )
        for row in tables["sentence"]
    ]


def address(source: str, sources: dict[str, str]) -> str:
    """Return the URL of `prefix#anchor`."""
    prefix, _, anchor = source.partition("#")
    return f"{sources[prefix]}#{anchor}" if anchor else sources[prefix]


def by_case() -> dict[str, list[Sentence]]:
    """Return the sentences that each case tests."""
    tested: dict[str, list[Sentence]] = {}
    for sentence in sentences():
        for name in sentence.cases:
            tested.setdefault(name, []).append(sentence)
    return tested
