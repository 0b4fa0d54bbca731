"""The mark of a fetched folder in which no code may run."""

from collections.abc import Iterable
from pathlib import Path

UNTRUSTED = ".untrusted"
"""File beside a fetched folder in which no code may run. Its lines are the URI, and the files that were left out."""


def marked(folders: Iterable[Path]) -> list[str]:
    """The lines of the first mark in these folders, at least one; none without a mark."""
    marks = (folder / UNTRUSTED for folder in folders)
    return next((mark.read_text().split("\n") for mark in marks if mark.is_file()), [])


def untrusted(path: Path) -> str | None:
    """Where the file or folder was fetched from, if no code in it may run; else None."""
    return next(iter(marked(path.parents)), None)
