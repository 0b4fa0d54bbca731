"""Loads the extensions of installed packages, and lists their entries by group."""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from .entries import EXTENSIONS, FIELDS, FLAGS, SINGLE, Plugin
from .entry_points import find_entry_points
from .validation import explain_rejection

if TYPE_CHECKING:
    from ..ext import Extension, Flag

T = TypeVar("T")
P = ParamSpec("P")


def remember(function: Callable[P, T]) -> Callable[P, T]:
    """Cache results like `functools.cache`, except while the module of an extension is being imported.

    During such an import, results are incomplete. The function is called then if the module imports from a
    former path or imports a missing module.
    """
    known: dict[tuple[object, ...], T] = {}

    @wraps(function)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        if args in known:
            return known[args]
        result = function(*args, **kwargs)
        if not any(map(_is_importing, _extension_entries())):
            known[args] = result
        return result

    ask.cache_clear = known.clear  # type: ignore[attr-defined]
    return ask


class _Extensions(NamedTuple):
    usable: "list[tuple[Plugin, Extension]]"
    refused: list[tuple[Plugin, str | BaseException]]
    """The unusable extensions, each with the reason."""
    guarding: list[tuple[Plugin, str | BaseException]]
    """The entries of `refused` that have an authority or a stage."""
    unknown: list[tuple[Plugin, str | BaseException]]
    """The entries of `refused` that may have an authority, because they are not a readable `Extension`."""


@remember
def load_extensions() -> _Extensions:
    """Load the extensions of all packages and classify them. Raises the error if one of our own fails."""
    checked = _Extensions([], [], [], [])
    taken: dict[str, str] = {}

    def refuse(plugin: Plugin, reason: str | BaseException, value: object = None) -> None:
        checked.refused.append((plugin, reason))
        authority = getattr(value, "authority", None)
        if authority is None:
            checked.unknown.append((plugin, reason))
        elif authority or getattr(value, "stages", None):
            checked.guarding.append((plugin, reason))

    for plugin in _extension_entries():
        try:
            extension = plugin.load()
        except (Exception, SystemExit) as error:
            if plugin.ours and not _is_importing(plugin):
                raise
            refuse(plugin, error)
            continue
        if (reason := explain_rejection(extension)) is None and extension.name in taken:
            reason = f"package {taken[extension.name]} has this name"
        if reason is not None:
            refuse(plugin, reason, extension)
            continue
        taken[extension.name] = plugin.package
        checked.usable.append((plugin, extension))
    while missing := [each for each in checked.usable if not {*each[1].requires} <= taken.keys()]:
        for each in missing:
            checked.usable.remove(each)
            name = next(name for name in each[1].requires if name not in taken)
            refuse(each[0], f'it requires the extension "{name}", which is not installed', each[1])
        for _, extension in missing:
            del taken[extension.name]
    return checked


def _extension_entries() -> list[Plugin]:
    """Return the entry points that declare extensions."""
    return [plugin for plugin in find_entry_points() if plugin.group == EXTENSIONS]


def _is_importing(plugin: Plugin) -> bool:
    """Whether the module of an extension, or a package above it, is still being imported."""
    module = plugin.value.partition(":")[0]
    while module:
        spec = getattr(sys.modules.get(module), "__spec__", None)
        if getattr(spec, "_initializing", False):
            return True
        module = module.rpartition(".")[0]
    return False


@remember
def list_entries() -> tuple[Plugin, ...]:
    """Return the entries of all extensions, and the entry points that packages declare directly."""
    from ..ext import Position

    entries = [plugin for plugin in find_entry_points() if plugin.group != EXTENSIONS]
    for plugin, extension in load_extensions()[0]:
        for group, fields in FIELDS.items():
            for field in fields:
                for name, said in getattr(extension, field).items():
                    place = said if isinstance(said, Position) else Position(said)
                    entries.append(
                        Plugin(
                            plugin.package,
                            group,
                            name,
                            place.value,
                            extension.name,
                            place.inside,
                            place.outside,
                        )
                    )
        for group, field in SINGLE.items():
            if value := getattr(extension, field):
                entries.append(Plugin(plugin.package, group, extension.name, value, extension.name))
    return tuple(sorted(entries, key=lambda entry: (not entry.ours, entry)))


@remember
def plugins(group: str) -> Mapping[str, Plugin]:
    """Return the entries of a group by name: our own first, then other packages in alphabetical order."""
    first: dict[str, Plugin] = {}
    for plugin in list_entries():
        if plugin.group == group:
            first.setdefault(plugin.name, plugin)
    return first


def extensions(*, ours: bool = False) -> Mapping[str, "Extension"]:
    """Return the usable extensions by name, our own first. With `ours`, return only our own."""
    return {
        extension.name: extension for plugin, extension in load_extensions()[0] if plugin.ours or not ours
    }


def flags() -> "Iterator[tuple[Plugin, Flag]]":
    """Yield the flags of all extensions."""
    for plugin, extension in load_extensions().usable:
        for name, flag in extension.flags.items():
            yield Plugin(plugin.package, FLAGS, name, f'after="{flag.after}"', extension.name), flag


@cache
def input_names(field: str) -> frozenset[str]:
    """Return the names in a field of all extensions: `json_inputs` or `optional_inputs`."""
    return frozenset(name for extension in extensions().values() for name in getattr(extension, field))


@cache
def references() -> Mapping[str, str]:
    """Return the merged `references` of all extensions."""
    return {name: text for each in extensions().values() for name, text in each.references.items()}
