"""Tables of other servers' modules, written in the form of import statements."""

from collections.abc import Mapping
from typing import NamedTuple


class Late(NamedTuple):
    """A target that takes long to import. The first read of the name imports it."""

    target: str


class Instead(NamedTuple):
    """A part of another server that inferstream does not have, and the replacement to use."""

    sentence: str


Target = str | Late | Instead
"""An object is a module that has the name, or `module:object`."""


def parsed(table: str, sentences: Mapping[str, str], package: str) -> dict[str, dict[str, Target]]:
    """The table as {module: {name: target}}. `sentences` are those that several lines share, by their keys.

    Targets that begin with a dot are in this package beside the tables.
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
        home = f"{__package__}.{package}{home}" if home[0] == "." else home
        for each in names.split(", "):
            name, _, other = each.partition(" as ")
            target = f"{home}:{name}" if other else home
            entries[other or name] = Late(target) if kind == "late" else target
    return modules
