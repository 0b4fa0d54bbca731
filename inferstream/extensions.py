"""Extensions: what installed packages bring to the server. docs/extending.md has the contracts."""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

if TYPE_CHECKING:
    from .errors import InvalidSettings
    from .ext import Extension

T = TypeVar("T")
P = ParamSpec("P")

logger = logging.getLogger("inferstream.extensions")

EXTENSIONS = "extensions"
"""The group of `Extension` values. The group of an entry point is this after `PREFIX`."""

STARTS = "starts"
COMMANDS = "commands"
DIALECTS = "dialects"
STREAM_DIALECTS = "stream_dialects"
RPCS = "rpcs"
MESSAGES = "messages"
STAGES = "stages"
EDGES = "edges"
CALL_VALUES = "call_values"
TURNS = "turns"
METERS = "meters"
WORKERS = "workers"
CODECS = "codecs"
RUNTIMES = "runtimes"
SOURCES = "sources"
MODULES = "modules"
MOVED = "moved"
FACETS = "facets"
HINTS = "hints"
ADAPTERS = "adapters"
OUTPUTS = "outputs"
FETCHERS = "fetchers"
ACTIONS = "actions"
AUTHORITIES = "authorities"
PROTOCOL_EXTENSIONS = "protocol_extensions"
PROTO_FILES = "proto_files"
SETTINGS = "settings"
MODEL_SETTINGS = "model_settings"

FIELDS = {
    STARTS: ("starts",),
    COMMANDS: ("commands",),
    DIALECTS: ("dialects", "doors"),
    STREAM_DIALECTS: ("stream_dialects",),
    RPCS: ("rpcs",),
    MESSAGES: ("messages",),
    STAGES: ("stages",),
    EDGES: ("edges",),
    CALL_VALUES: ("call_values",),
    TURNS: ("turns",),
    METERS: ("meters",),
    WORKERS: ("workers",),
    CODECS: ("codecs",),
    RUNTIMES: ("runtimes",),
    SOURCES: ("sources",),
    MODULES: ("modules",),
    MOVED: ("moved",),
    FACETS: ("facets",),
    HINTS: ("hints",),
    ADAPTERS: ("adapters",),
    OUTPUTS: ("outputs",),
    FETCHERS: ("fetchers",),
    PROTOCOL_EXTENSIONS: ("protocol_extensions",),
    PROTO_FILES: ("proto_files",),
    ACTIONS: ("actions",),
}
"""The fields of `Extension` with the entries of each group. Packages may also name these as entry points."""

SINGLE = {SETTINGS: "settings", MODEL_SETTINGS: "model_settings", AUTHORITIES: "authority"}
"""The fields of `Extension` with one entry, which has the name of the extension."""

OURS = __name__.partition(".")[0]

PREFIX = f"{OURS}."
"""How the groups of entry points begin that this server reads."""

INSTALLED = ".dist-info"
"""The ending of the folder that an installation writes. The egg-info of a checkout may be older than its files."""


class Plugin(NamedTuple):
    """One entry of a package: a name in a group, and the object that stands for it."""

    package: str
    group: str
    name: str
    value: str
    """`module:object`, or a module."""
    extension: str = ""
    """The extension whose value has the entry; empty for an entry point."""
    inside: str = ""
    outside: str = ""
    """The part next to which it stands in an order."""

    @property
    def ours(self) -> bool:
        return self.package == OURS

    def load(self) -> Any:
        """Import the object. Raises whatever its module raises."""
        return import_object(self.value)

    def refusal(self, reason: str | BaseException) -> "InvalidSettings":
        """The error for an entry point that cannot be used, in one line."""
        from .errors import InvalidSettings  # late: `server --help` needs none

        if isinstance(reason, InvalidSettings):
            reason = reason.message
        elif isinstance(reason, BaseException):
            first = next(iter(str(reason).strip().splitlines()), "")
            reason = f"{type(reason).__name__}: {first}".rstrip(": ")
        place = f'entry point "{self.name}" of {PREFIX}{self.group}'
        if self.extension:
            place = f'extension "{self.extension}", {self.group} "{self.name}"'
        return InvalidSettings(f"package {self.package}: {place} ({self.value}): {reason}")

    def guard_refusal(self, reason: str | BaseException) -> "InvalidSettings":
        """The error for what may decide who may do what, so that the server cannot start without it."""
        from .errors import InvalidSettings

        return InvalidSettings(
            f"{self.refusal(reason).message}. The server does not start, because this package may decide who may do "
            f"what. Repair or update it, or remove it: pip uninstall {self.package}"
        )


def import_object(value: str) -> Any:
    """What `module:object`, or a module, names. Raises whatever the module raises."""
    module, _, name = value.partition(":")
    imported = import_module(module)
    return attrgetter(name)(imported) if name else imported


def arrange(
    parts: Mapping[str, T], joining: Iterable[tuple[Plugin, T]], default_inside: str = ""
) -> list[tuple[Plugin | None, T]]:
    """Parts from the inside out: those of the core, and those that join at their places.

    One that names no place is inside `default_inside`, or outermost.
    """
    order: list[tuple[str, Plugin | None, T]] = [(name, None, part) for name, part in parts.items()]
    for plugin, part in sorted(joining, key=lambda each: bool(each[0].inside or each[0].outside)):
        places = {name: index for index, (name, of, _) in enumerate(order) if of is None or name not in parts}
        at = places.get(plugin.inside, places.get(default_inside, len(order)))
        if plugin.outside in places:
            at = places[plugin.outside] + 1
        order.insert(at, (plugin.name, plugin, part))
    return [(plugin, part) for _, plugin, part in order]


_set_aside: list[tuple[Plugin, str | BaseException]] = []


def remember(function: Callable[P, T]) -> Callable[P, T]:
    """`cache`, but not for results while the module of an extension is imported: they may lack what it brings.

    A module asks when it imports a former path, or tries one that is not there.
    """
    known: dict[tuple[object, ...], T] = {}

    @wraps(function)
    def ask(*args: P.args, **kwargs: P.kwargs) -> T:
        if args in known:
            return known[args]
        result = function(*args, **kwargs)
        if not any(map(_is_importing, _named())):
            known[args] = result
        return result

    ask.cache_clear = known.clear  # type: ignore[attr-defined]
    return ask


@remember
def plugins(group: str) -> Mapping[str, Plugin]:
    """The entries of a group by name: ours first, then those of other packages in alphabetical order."""
    first: dict[str, Plugin] = {}
    for plugin in _entries():
        if plugin.group == group:
            first.setdefault(plugin.name, plugin)
    return first


def check_names(strict: bool) -> None:
    """Leave out extensions that cannot be used, and entries whose names other packages have.

    Raises InvalidSettings for one where `strict`.
    """
    for plugin, reason in (*_checked()[1], *_set_aside):
        leave_out(plugin, reason, strict)
    for package in {plugin.package for plugin in _entries() if not plugin.extension}:
        _say(
            f"package {package}: entry points of {PREFIX}{COMMANDS}, {PREFIX}{DIALECTS} and so on will not be read by "
            f"a later version; name one Extension in {PREFIX}{EXTENSIONS}"
        )
    for plugin in _entries():
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


def check_authorities(is_local: bool) -> None:
    """Raise InvalidSettings for an authority that is left out.

    A server that other machines reach, and that is not `is_local`, needs every extension that may have one.
    """
    checked = _checked()
    for plugin, reason in (*checked.guarding, *(() if is_local else checked.unknown)):
        raise plugin.guard_refusal(reason)
    for plugin in _entries():
        if plugin.group == AUTHORITIES and (owner := plugins(AUTHORITIES)[plugin.name]) != plugin:
            raise plugin.guard_refusal(f"package {owner.package} has this name")


def set_aside(plugin: Plugin, reason: str | BaseException) -> None:
    """Keep what cannot be used for `check_names`, before it is known whether the server is strict.

    Raises the error of one of ours.
    """
    if plugin.ours:
        raise reason if isinstance(reason, BaseException) else plugin.refusal(reason)
    _set_aside.append((plugin, reason))


def leave_out(plugin: Plugin, reason: str | BaseException, strict: bool) -> None:
    """Say once in the log what is left out. Raises InvalidSettings where `strict`, and for one of ours always."""
    if plugin.ours and isinstance(reason, BaseException):
        raise reason
    refusal = plugin.refusal(reason)
    if strict or plugin.ours:
        raise refusal
    _say(refusal.message)


@cache
def _say(line: str) -> None:
    logger.warning("%s", line)


@cache
def input_names(field: str) -> frozenset[str]:
    """The names in `json_inputs` or `optional_inputs` of all extensions."""
    return frozenset(name for extension in extensions().values() for name in getattr(extension, field))


@cache
def references() -> Mapping[str, str]:
    """The `references` of all extensions."""
    return {name: text for each in extensions().values() for name, text in each.references.items()}


def extensions(*, ours: bool = False) -> Mapping[str, "Extension"]:
    """The extensions that can be used, by name, ours first, or `ours` alone."""
    return {extension.name: extension for plugin, extension in _checked()[0] if plugin.ours or not ours}


class _Extensions(NamedTuple):
    usable: "list[tuple[Plugin, Extension]]"
    refused: list[tuple[Plugin, str | BaseException]]
    """The others, with the reason."""
    guarding: list[tuple[Plugin, str | BaseException]]
    """Those of `refused` that have an authority."""
    unknown: list[tuple[Plugin, str | BaseException]]
    """Those of `refused` that may have one, because they are no `Extension` of this server."""


@remember
def _checked() -> _Extensions:
    """The extensions of all packages. Raises the error of one of ours."""
    checked = _Extensions([], [], [], [])
    taken: dict[str, str] = {}

    def refuse(plugin: Plugin, reason: str | BaseException, value: object = None) -> None:
        checked.refused.append((plugin, reason))
        authority = getattr(value, "authority", None)
        if authority != "":
            (checked.unknown if authority is None else checked.guarding).append((plugin, reason))

    for plugin in _named():
        try:
            extension = plugin.load()
        except (Exception, SystemExit) as error:
            if plugin.ours and not _is_importing(plugin):
                raise
            refuse(plugin, error)
            continue
        if (reason := _reason_against(extension)) is None and extension.name in taken:
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


def _named() -> list[Plugin]:
    """The entry points of extensions."""
    return [plugin for plugin in _installed() if plugin.group == EXTENSIONS]


def _is_importing(plugin: Plugin) -> bool:
    """Whether the module of a plug-in is being imported, so that it may lack the object."""
    module = plugin.value.partition(":")[0]
    while module:
        spec = getattr(sys.modules.get(module), "__spec__", None)
        if getattr(spec, "_initializing", False):
            return True
        module = module.rpartition(".")[0]
    return False


def _reason_against(value: object) -> str | None:
    """Why a value is no extension for this server; None if it is one."""
    from .ext import API, Extension

    if not isinstance(value, Extension):
        return f"it is a {type(value).__name__}, not an Extension"
    if value.api != API:
        return f"it is for version {value.api} of the extension API, and this server has version {API}"
    return None


@remember
def _entries() -> tuple[Plugin, ...]:
    """All entries: those that packages name themselves, and those of extensions."""
    from .ext import Position

    entries = [plugin for plugin in _installed() if plugin.group != EXTENSIONS]
    for plugin, extension in _checked()[0]:
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
    groups = f"[{PREFIX}".encode()
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
            yield Plugin(OURS, group.removeprefix(PREFIX), name, value)


def _parsed(package: str, text: bytes) -> Iterator[Plugin]:
    """The entry points in our groups of a file of metadata."""
    group = ""
    for line in text.decode().splitlines():
        if line.startswith("["):
            group = line.strip().strip("[]")
        elif group.startswith(PREFIX) and "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            target = value.partition("[")[0].strip()
            yield Plugin(package, group.removeprefix(PREFIX), name.strip(), target)
