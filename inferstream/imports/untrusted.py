"""The mark of a fetched folder in which no code may run."""

from collections.abc import Iterable
from pathlib import Path

UNTRUSTED = ".untrusted"
"""Name of the file next to a fetched folder in which no code may run. Its lines are the URI and the files left out."""


def marked(folders: Iterable[Path]) -> list[str]:
    """Return the lines of the first mark in these folders, or an empty list."""
    marks = (folder / UNTRUSTED for folder in folders)
    return next((mark.read_text().split("\n") for mark in marks if mark.is_file()), [])


def untrusted(path: Path) -> str | None:
    """Return the URI of a fetched file or folder in which no code may run, else None."""
    return next(iter(marked(path.parents)), None)
