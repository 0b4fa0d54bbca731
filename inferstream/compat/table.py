"""Tables of the modules of other servers, written like import statements."""

from collections.abc import Mapping
from typing import NamedTuple


class Late(NamedTuple):
    """A target that is slow to import. It is imported when the name is first read."""

    target: str


class Instead(NamedTuple):
    """A part of another server that inferstream does not have, and its replacement."""

    sentence: str


Target = str | Late | Instead
"""The location of an object: the path of a module that contains the same name, or `module:object`."""


def parse_table(table: str, sentences: Mapping[str, str], package: str) -> dict[str, dict[str, Target]]:
    """Parse a table to {module: {name: target}}. `sentences` are the shared replacement notes, by key.

    Targets that start with a dot are relative to `package`.
    """
    modules: dict[str, dict[str, Target]] = {}
    entries: dict[str, Target] = {}
    for line in table.replace("\n      ", " ").strip().splitlines():
        if line[0] != " ":
            module, _, line = line.partition(":")
            entries = modules[module] = {}
            if not line:
                continue
        kind, _, entry = line.strip().partition(" ")
        if kind == "no":
            names, _, sentence = entry.partition(": ")
            entries.update(dict.fromkeys(names.split(", "), Instead(sentences.get(sentence, sentence))))
            continue
        home, _, names = entry.partition(" import ")
        home = f"{package}{home}" if home[0] == "." else home
        for each in names.split(", "):
            name, _, other = each.partition(" as ")
            target = f"{home}:{name}" if other else home
            entries[other or name] = Late(target) if kind == "late" else target
    return modules
