"""Descriptions of arguments in a docstring: `Args:` as Google writes it, `:param name:` as Sphinx does."""

import inspect
import re
from collections.abc import Iterator

_SECTION = re.compile(r"(Args|Arguments|Parameters):$")
_GOOGLE = re.compile(r"(\w+)(?: *\([^)]*\))?: *(.*)")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument)(?: +[^:]+)? +(\w+): *(.*)")

Entry = tuple[str, str, int]
"""The name of an argument, the first line about it, and the columns that further lines must be indented by."""


def descriptions(doc: str | None) -> dict[str, str]:
    """What a docstring says of each argument, each as one line."""
    lines = inspect.cleandoc(doc or "").splitlines()
    parts_of: dict[str, list[str]] = {}
    name, indented = None, 0
    for line, entry in zip(lines, _entries(lines), strict=True):
        if entry is not None:
            name, first, indented = entry
            parts_of[name] = [first]
        elif name is not None and line.strip() and _indent(line) > indented:
            parts_of[name].append(line.strip())
        else:
            name = None
    return {name: text for name, parts in parts_of.items() if (text := " ".join(parts).strip())}


def _entries(lines: list[str]) -> Iterator[Entry | None]:
    """For each line the argument that it begins to describe, if any."""
    section: int | None = None  # the indentation of the header of the section of arguments
    column: int | None = None  # the indentation of its arguments
    for line in lines:
        text, indent = line.strip(), _indent(line)
        if _SECTION.match(text):
            section, column = indent, None
            yield None
            continue
        if section is not None and text and indent <= section:
            section = None
        if section is not None and text and column is None:
            column = indent
        inside = section is not None and indent == column
        match = _SPHINX.match(text) or (_GOOGLE.match(text) if inside else None)
        yield (match[1], match[2], indent) if match else None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
