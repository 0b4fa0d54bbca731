"""The marker of fetched folders in which no code may run."""

from collections.abc import Iterable
from pathlib import Path

UNTRUSTED = ".untrusted"
"""The name of the marker file next to a fetched folder.

Its lines are the URI and the paths of the files that were discarded.
"""


def read_marker(folders: Iterable[Path]) -> list[str]:
    """Return the lines of the first marker file in these folders, or an empty list."""
    marks = (folder / UNTRUSTED for folder in folders)
    return next((mark.read_text().split("\n") for mark in marks if mark.is_file()), [])


def untrusted_origin(path: Path) -> str | None:
    """Return the URI of an untrusted file or folder, or None if it is trusted."""
    return next(iter(read_marker(path.parents)), None)
