"""The sentences of the protocol, each with its source and the cases that test it."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Sentence:
    """A sentence. One that no client can test has no cases, and says why."""

    id: str
    source: str
    text: str
    cases: tuple[str, ...]
    untested: str = ""


def sentences() -> list[Sentence]:
    """All, in the order of the file, with whole addresses as their sources."""
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
    """The address of `prefix#anchor`."""
    prefix, _, anchor = source.partition("#")
    return f"{sources[prefix]}#{anchor}" if anchor else sources[prefix]


def by_case() -> dict[str, list[Sentence]]:
    """The sentences that each case tests."""
    tested: dict[str, list[Sentence]] = {}
    for sentence in sentences():
        for name in sentence.cases:
            tested.setdefault(name, []).append(sentence)
    return tested
