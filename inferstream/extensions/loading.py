"""Imports the entries of a group, and reports those that cannot be used."""

import logging
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from .discovery import list_entries, load_extensions, plugins
from .entries import AUTHORITIES, COMMANDS, DIALECTS, EXTENSIONS, PREFIX, STAGES, Plugin

logger = logging.getLogger("inferstream.extensions")
_set_aside: list[tuple[Plugin, str | BaseException]] = []


def check_names(strict: bool) -> None:
    """Skip extensions that cannot be used, and entries whose names are already taken by another package.

    Each is logged. Raises InvalidSettings instead if `strict`.
    """
    for plugin, reason in (*load_extensions().refused, *_set_aside):
        leave_out(plugin, reason, strict)
    for package in {plugin.package for plugin in list_entries() if not plugin.extension}:
        _warn_once(
            f"package {package}: entry points of {PREFIX}{COMMANDS}, {PREFIX}{DIALECTS} and so on will not be read by "
            f"a later version; name one Extension in {PREFIX}{EXTENSIONS}"
        )
    for plugin in list_entries():
        owner = plugins(plugin.group)[plugin.name]
        if owner is not plugin:
            part = f"{plugin.group} " if plugin.extension else ""
            hint = f'rename {part}"{plugin.name}", for example to "{plugin.package}_{plugin.name}"'
            leave_out(plugin, f"package {owner.package} has this name; {hint}", strict)


def load_group(group: str, strict: bool) -> Iterator[tuple[Plugin, Any]]:
    """Import the objects of a group, and skip those that fail.

    Raises InvalidSettings for a failure if `strict`.
    """
    for plugin in plugins(group).values():
        try:
            value = plugin.load()
        except (Exception, SystemExit) as error:
            leave_out(plugin, error, strict)
        else:
            yield plugin, value


def load_placed_group(group: str, parts: Iterable[str], strict: bool) -> Iterator[tuple[Plugin, Any]]:
    """Like `load_group`, but skip objects placed next to a missing part. `parts` are the core parts."""
    known = ["", *parts, *plugins(group)]
    for plugin, value in load_group(group, strict):
        # Our plug-ins, even as separate packages, may name a part that is not installed.
        if plugin.value.startswith(PREFIX) or {plugin.inside, plugin.outside} <= {*known}:
            yield plugin, value
            continue
        names = " or ".join(f'"{name}"' for name in (plugin.inside, plugin.outside) if name not in known)
        available = ", ".join(name for name in known[1:] if name != plugin.name)
        leave_out(
            plugin, f"it is placed next to {names}, which does not exist; available: {available}", strict
        )


def check_authorities(is_local: bool) -> None:
    """Raise InvalidSettings if an extension with an authority, which controls access, cannot be used.

    Unless `is_local`, which means that other machines cannot reach the server, this includes extensions that
    may have an authority, such as those that cannot be imported.
    """
    checked = load_extensions()
    for plugin, reason in (*checked.guarding, *(() if is_local else checked.unknown)):
        raise plugin.build_startup_error(reason)
    for plugin in list_entries():
        if plugin.group == AUTHORITIES and (owner := plugins(AUTHORITIES)[plugin.name]) != plugin:
            raise plugin.build_startup_error(f"package {owner.package} has this name")


def set_aside(plugin: Plugin, reason: str | BaseException) -> None:
    """Record an unusable extension for `check_names` to report, because strict mode is not known yet.

    Raises the error immediately if the extension is our own.
    """
    if plugin.ours:
        raise reason if isinstance(reason, BaseException) else plugin.build_error(reason)
    _set_aside.append((plugin, reason))


def leave_out(plugin: Plugin, reason: str | BaseException, strict: bool) -> None:
    """Log once that an extension is skipped.

    Raises InvalidSettings if `strict`, if the extension is our own, or if it is a stage: a stage may check or
    change calls, so the server must not run without it.
    """
    if plugin.ours and isinstance(reason, BaseException):
        raise reason
    refusal = plugin.build_error(reason)
    if strict or plugin.ours or plugin.group == STAGES:
        raise refusal
    _warn_once(refusal.message)


@cache
def _warn_once(line: str) -> None:
    logger.warning("%s", line)


def list_faults() -> list[str]:
    """Return the reasons why extensions and sections cannot be used, one line each."""
    return [
        plugin.build_error(reason).message for plugin, reason in (*load_extensions().refused, *_set_aside)
    ]
