"""Finds the entry points of installed packages."""

import os
import sys
from collections.abc import Iterator
from functools import cache

from .entries import OURS, PREFIX, Plugin

INSTALLED = ".dist-info"
"""The suffix of the metadata folder of an installed package.

The egg-info folder of a source checkout is ignored, because it may be older than the sources.
"""


@cache
def find_entry_points() -> tuple[Plugin, ...]:
    """Return the inferstream entry points of all packages on the path.

    `importlib.metadata` is not used, because importing it takes a tenth of the time of `server --help`.
    """
    texts: dict[str, bytes] = {}
    for folder in sys.path:
        for entry in _list_folder(folder):
            if entry.endswith(INSTALLED) and (package := entry.partition("-")[0].lower()) not in texts:
                texts[package] = _read_file(f"{folder}/{entry}/entry_points.txt")
    groups = f"[{PREFIX}".encode()
    parsed = [
        plugin
        for package, text in texts.items()
        if groups in text
        for plugin in _parse_entry_points(package, text)
    ]
    if OURS not in texts:
        parsed += _checkout_entry_points()
    return tuple(sorted(parsed, key=lambda plugin: (not plugin.ours, plugin)))


def _list_folder(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # a zip archive, a missing folder, or "" (the working directory)


def _read_file(file: str) -> bytes:
    try:
        with open(file, "rb", buffering=0) as opened:
            return opened.read()
    except OSError:
        return b""  # most packages have no entry points


def _checkout_entry_points() -> Iterator[Plugin]:
    """Yield our own entry points if inferstream is not installed but run from its source tree."""
    import tomllib

    text = _read_file(os.path.join(os.path.dirname(__file__), "..", "..", "pyproject.toml"))
    groups = tomllib.loads(text.decode()).get("project", {}).get("entry-points", {})
    for group, points in groups.items():
        for name, value in points.items():
            yield Plugin(OURS, group.removeprefix(PREFIX), name, value)


def _parse_entry_points(package: str, text: bytes) -> Iterator[Plugin]:
    """Yield the inferstream entry points in the contents of an `entry_points.txt` file."""
    group = ""
    for line in text.decode().splitlines():
        if line.startswith("["):
            group = line.strip().strip("[]")
        elif group.startswith(PREFIX) and "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            target = value.partition("[")[0].strip()
            yield Plugin(package, group.removeprefix(PREFIX), name.strip(), target)
