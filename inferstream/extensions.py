"""Extensions: what installed packages bring to the server. docs/extending.md has the contracts."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .errors import InvalidSettings

logger = logging.getLogger("inferstream.extensions")

COMMANDS = "inferstream.commands"
DIALECTS = "inferstream.dialects"
STAGES = "inferstream.stages"
CODECS = "inferstream.codecs"
RUNTIMES = "inferstream.runtimes"
SOURCES = "inferstream.sources"

OURS = __name__.partition(".")[0]

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
        return self.package == OURS

    def load(self) -> Any:
        """Import the object. Raises whatever its module raises."""
        module, _, name = self.value.partition(":")
        imported = import_module(module)
        return attrgetter(name)(imported) if name else imported

    def refusal(self, reason: str | BaseException) -> "InvalidSettings":
        """The error for an entry point that cannot be used, in one line."""
        from .errors import InvalidSettings  # late: `server --help` needs none

        if isinstance(reason, InvalidSettings):
            reason = reason.message
        elif isinstance(reason, BaseException):
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
            leave_out(plugin, f"package {owner.package} has this name", strict)


def loaded(group: str, strict: bool) -> Iterator[tuple[Plugin, Any]]:
    """Import the objects of a group, and leave out what fails. Raises InvalidSettings for it where `strict`."""
    for plugin in plugins(group).values():
        try:
            value = plugin.load()
        except (Exception, SystemExit) as error:
            leave_out(plugin, error, strict)
        else:
            yield plugin, value


def leave_out(plugin: Plugin, reason: str | BaseException, strict: bool) -> None:
    """Say once in the log what is left out. Raises InvalidSettings where `strict`, and the error of one of ours."""
    if plugin.ours and isinstance(reason, BaseException):
        raise reason
    refusal = plugin.refusal(reason)
    if strict:
        raise refusal
    _say(refusal.message)


@cache
def _say(line: str) -> None:
    logger.warning("%s", line)


@cache
def _installed() -> tuple[Plugin, ...]:
    """The entry points in our groups of all packages on the path.

    Importing `importlib.metadata`, which says the same, would be a tenth of `server --help`.
    """
    texts: dict[str, bytes] = {}
    for folder in sys.path:
        for entry in _listed(folder):
            if entry.endswith(INSTALLED) and (package := entry.partition("-")[0].lower()) not in texts:
                texts[package] = _content(f"{folder}/{entry}/entry_points.txt")
    groups = f"[{OURS}.".encode()
    parsed = [
        plugin for package, text in texts.items() if groups in text for plugin in _parsed(package, text)
    ]
    if OURS not in texts:
        parsed += _of_checkout()
    return tuple(sorted(parsed, key=lambda plugin: (not plugin.ours, plugin)))


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []  # an archive, a folder that is not there, or the current one, which holds no installation


def _content(file: str) -> bytes:
    try:
        with open(file, "rb", buffering=0) as opened:
            return opened.read()
    except OSError:
        return b""  # most packages have no entry points


def _of_checkout() -> Iterator[Plugin]:
    """Our own entry points where the package is not installed and its sources are on the path."""
    import tomllib

    text = _content(os.path.join(os.path.dirname(__file__), "..", "pyproject.toml"))
    groups = tomllib.loads(text.decode()).get("project", {}).get("entry-points", {})
    for group, points in groups.items():
        for name, value in points.items():
            yield Plugin(OURS, group, name, value)


def _parsed(package: str, text: bytes) -> Iterator[Plugin]:
    """The entry points in our groups of a file of metadata."""
    group = ""
    for line in text.decode().splitlines():
        if line.startswith("["):
            group = line.strip().strip("[]")
        elif group.startswith(f"{OURS}.") and "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield Plugin(package, group, name.strip(), value.partition("[")[0].strip())
