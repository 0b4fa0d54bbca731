"""Plug-ins: what installed packages bring to the server by entry points. docs/extending.md has the contracts."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

from .errors import InvalidSettings

logger = logging.getLogger("inferstream.plugins")

COMMANDS = "inferstream.commands"
DIALECTS = "inferstream.dialects"
STAGES = "inferstream.stages"
CODECS = "inferstream.codecs"
RUNTIMES = "inferstream.runtimes"

INSTALLED = ".dist-info"
"""The ending of the folder that an installation writes. The egg-info of a checkout may be older than its files."""


class Plugin(NamedTuple):
    """One entry point of a package: a name in a group, and the object that stands for it."""

    package: str
    group: str
    name: str
    value: str
    """`module:object`, or a module."""

    @property
    def ours(self) -> bool:
        return self.package == __package__

    def load(self) -> Any:
        """Import the object. Raises InvalidSettings that names package and entry point, unless it is ours."""
        try:
            return resolve_name(self.value) if ":" in self.value else import_module(self.value)
        except (Exception, SystemExit) as error:
            if self.ours:
                raise
            raise self.refusal(error) from error

    def refusal(self, reason: str | BaseException) -> InvalidSettings:
        """The error for an entry point that cannot be used, in one line."""
        if isinstance(reason, BaseException):
            first = next(iter(str(reason).strip().splitlines()), "")
            reason = f"{type(reason).__name__}: {first}".rstrip(": ")
        return InvalidSettings(
            f'package {self.package}: entry point "{self.name}" of {self.group} ({self.value}): {reason}'
        )


@cache
def plugins(group: str) -> Mapping[str, Plugin]:
    """The entry points of a group by name: ours first, then those of other packages in alphabetical order."""
    first: dict[str, Plugin] = {}
    for plugin in _installed():
        if plugin.group == group:
            first.setdefault(plugin.name, plugin)
    return first


def check_names(strict: bool) -> None:
    """Leave out entry points whose names other packages have. Raises InvalidSettings for one where `strict`."""
    for plugin in _installed():
        owner = plugins(plugin.group)[plugin.name]
        if owner is not plugin:
            leave_out(plugin.refusal(f"package {owner.package} has this name"), strict)


def loaded(group: str, strict: bool) -> Iterator[tuple[Plugin, Any]]:
    """Import the objects of a group. One that fails is left out, with a line in the log.

    Raises InvalidSettings for it where `strict`.
    """
    for plugin in plugins(group).values():
        try:
            value = plugin.load()
        except InvalidSettings as error:
            leave_out(error, strict)
        else:
            yield plugin, value


def leave_out(refusal: InvalidSettings, strict: bool) -> None:
    """Say once in the log what is left out. Raises the refusal where `strict`."""
    if strict:
        raise refusal
    _say(refusal.message)


@cache
def _say(line: str) -> None:
    logger.warning("%s", line)


@cache
def _installed() -> tuple[Plugin, ...]:
    """The entry points in our groups of all packages on the path.

    `importlib.metadata` would take 30 ms of every command to say the same.
    """
    texts: dict[str, str] = {}
    for folder in sys.path:
        for entry in _listed(folder or "."):
            stem, ending = os.path.splitext(entry)
            if ending == INSTALLED and (package := stem.partition("-")[0].lower()) not in texts:
                file = Path(folder, entry, "entry_points.txt")
                texts[package] = file.read_text("utf-8") if file.is_file() else ""
    return tuple(
        sorted(
            (plugin for package, text in texts.items() for plugin in _parsed(package, text)),
            key=lambda plugin: (not plugin.ours, plugin),
        )
    )


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []  # an archive, or a folder that is not there


def _parsed(package: str, text: str) -> Iterator[Plugin]:
    """The entry points in our groups of a file of metadata."""
    group = ""
    for line in text.splitlines() if f"[{__package__}." in text else ():
        if line.startswith("["):
            group = line.strip().strip("[]")
        elif group.startswith(f"{__package__}.") and "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield Plugin(package, group, name.strip(), value.partition("[")[0].strip())
