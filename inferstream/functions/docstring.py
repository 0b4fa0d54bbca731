"""Parses argument descriptions in docstrings, in Google style (`Args:`) or Sphinx style (`:param name:`)."""

import inspect
import re
from collections.abc import Iterator

_SECTION = re.compile(r"(Args|Arguments|Parameters):$")
_GOOGLE = re.compile(r"(\w+)(?: *\([^)]*\))?: *(.*)")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument)(?: +[^:]+)? +(\w+): *(.*)")

Entry = tuple[str, str, int]
"""The name of an argument, the first line of its description, and its indentation."""


def parse_descriptions(doc: str | None) -> dict[str, str]:
    """Return the description of each argument, joined into one line."""
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
    """Yield, for each line, the argument whose description starts there, or None."""
    section: int | None = None  # indentation of the header of the arguments section
    column: int | None = None  # indentation of its arguments
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
